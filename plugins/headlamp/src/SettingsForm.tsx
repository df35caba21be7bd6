// The form in Headlamp's settings of this plugin. What is typed is saved at once, as far as it is valid.

import { Stack, TextField } from '@mui/material';
import { useState } from 'react';
import { forgetRoutes } from './service';
import { DEFAULTS, problem, Settings, store } from './settings';

const FIELDS: Array<[keyof Settings, string, string]> = [
  ['namespace', 'Namespace', 'Namespace of the decisions service'],
  ['name', 'Service', 'Name of the Service'],
  ['port', 'Port', 'Port of the Service, with TLS'],
  [
    'pages',
    'Address of the web pages',
    "If they have an ingress, such as https://HOST/ui. Empty: through the API server's proxy",
  ],
];

export function SettingsForm() {
  const [typed, setTyped] = useState<Partial<Settings>>(() => store.get() ?? {});
  const change = (key: keyof Settings, value: string) => {
    setTyped({ ...typed, [key]: value });
    if (problem(key, value)) return;
    store.update({ [key]: value.trim() });
    forgetRoutes();
  };
  return (
    <Stack spacing={2} sx={{ maxWidth: 500, pt: 1 }}>
      {FIELDS.map(([key, label, help]) => {
        const wrong = problem(key, typed[key] ?? '');
        return (
          <TextField
            key={key}
            label={label}
            value={typed[key] ?? ''}
            placeholder={DEFAULTS[key]}
            InputLabelProps={{ shrink: true }}
            error={Boolean(wrong)}
            helperText={wrong ? `${label} ${wrong}` : help}
            onChange={event => change(key, event.target.value)}
          />
        );
      })}
    </Stack>
  );
}
