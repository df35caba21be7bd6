// Where the decisions service is, as the user set it. Owns: the values, their defaults, what is valid.

import { ConfigStore } from '@kinvolk/headlamp-plugin/lib';

export const PLUGIN = 'herodotus'; // the name in package.json, by which Headlamp finds the settings

export interface Settings {
  namespace: string;
  name: string;
  port: string;
  /** The address of the web pages behind an ingress; empty for those that the API server's proxy serves. */
  pages: string;
}

/** The Service of the Helm chart. */
export const DEFAULTS: Settings = {
  namespace: 'herodotus',
  name: 'herodotus-endpoint',
  port: '8000',
  pages: '',
};

const NAME = /^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$/;
const PORT = /^([a-z0-9]([a-z0-9-]*[a-z0-9])?)$/;
const LAST_PORT = 65535;

export const store = new ConfigStore<Partial<Settings>>(PLUGIN);

/** Return the settings in `saved`, with defaults in place of what is empty or invalid. */
export function complete(saved?: Partial<Settings>): Settings {
  const found = { ...DEFAULTS };
  for (const key of Object.keys(DEFAULTS) as Array<keyof Settings>) {
    const value = saved?.[key]?.trim();
    if (value && !problem(key, value)) found[key] = value;
  }
  return found;
}

/** Return what is wrong with a value, or an empty string. An empty value means the default. */
export function problem(key: keyof Settings, value: string): string {
  const text = value.trim();
  if (!text) return '';
  if (key === 'pages') return isWebAddress(text) ? '' : 'must begin with https:// or http://';
  if (key === 'port') {
    const isNumber = /^\d+$/.test(text);
    const isPort = isNumber ? Number(text) > 0 && Number(text) <= LAST_PORT : PORT.test(text);
    return isPort ? '' : 'must be a number up to 65535, or the name of a port';
  }
  return NAME.test(text) ? '' : 'must be a name of lower-case letters, digits, hyphens and dots';
}

function isWebAddress(text: string): boolean {
  try {
    return ['https:', 'http:'].includes(new URL(text).protocol);
  } catch {
    return false;
  }
}
