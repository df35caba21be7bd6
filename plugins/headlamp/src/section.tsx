// The head of a section, with a button that reads its answer again.

import { ActionButton, SectionHeader } from '@kinvolk/headlamp-plugin/lib/CommonComponents';
import { ReactNode } from 'react';
import { Asked } from './useAnswer';

export function SectionTitle({ title, actions }: { title: string; actions: ReactNode[] }) {
  return <SectionHeader title={title} headerStyle="subsection" actions={actions} />;
}

export function RefreshButton({ asked }: { asked: Asked<unknown> }) {
  return (
    <ActionButton
      description={asked.isLoading ? 'Reading …' : 'Read again'}
      icon="mdi:refresh"
      onClick={asked.refresh}
      iconButtonProps={{ disabled: asked.isLoading }}
    />
  );
}
