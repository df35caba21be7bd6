// The cluster that Headlamp shows, and the settings of this plugin.

import { Utils } from '@kinvolk/headlamp-plugin/lib';
import { Connection } from './service';
import { complete, store } from './settings';

const useSettings = store.useConfig();

/** Return the connection for a cluster, by default the one in Headlamp's URL. `key` differs between connections. */
export function useConnection(cluster?: string): Connection & { key: string } {
  const settings = complete(useSettings());
  const found = cluster || Utils.getCluster() || '';
  const { namespace, name, port } = settings;
  return { cluster: found, settings, key: [found, namespace, name, port].join('/') };
}
