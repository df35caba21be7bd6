// The plugin's places in Headlamp: sections of pods and nodes, a page in the side bar, settings.

import {
  registerDetailsViewSectionsProcessor,
  registerPluginSettings,
  registerRoute,
  registerSidebarEntry,
} from '@kinvolk/headlamp-plugin/lib';
import { PendingPage } from './PendingPage';
import { addSection } from './sections';
import { PLUGIN } from './settings';
import { SettingsForm } from './SettingsForm';

const PENDING = 'herodotus-pending';

registerDetailsViewSectionsProcessor(addSection);

registerSidebarEntry({
  parent: 'workloads',
  name: PENDING,
  label: 'Pending pods',
  url: '/herodotus/pending',
});

registerRoute({
  path: '/herodotus/pending',
  sidebar: PENDING,
  name: PENDING,
  exact: true,
  component: () => <PendingPage />,
});

registerPluginSettings(PLUGIN, SettingsForm, false);
