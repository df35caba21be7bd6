// Where the sections stand on the pages of pods and nodes: below the metadata, because they answer the first question.

import { DefaultDetailsViewSection } from '@kinvolk/headlamp-plugin/lib';
import { ReactNode } from 'react';
import { NodeSection } from './NodeSection';
import { PodSection } from './PodSection';

const ID = 'herodotus';

interface Section {
  id: string;
  section: ReactNode;
}

/** Return the sections of a page with this plugin's, if the page is that of a pod or node. */
export function addSection(resource: any, sections: any[]): any[] {
  const section = sectionOf(resource);
  if (!section || sections.some(one => one?.id === ID)) return sections;
  const metadata = sections.findIndex(one => one?.id === DefaultDetailsViewSection.METADATA);
  const added: Section = { id: ID, section };
  return [...sections.slice(0, metadata + 1), added, ...sections.slice(metadata + 1)];
}

function sectionOf(resource: any): ReactNode {
  if (resource?.kind === 'Pod') {
    return <PodSection pod={resource.jsonData} cluster={resource.cluster} />;
  }
  if (resource?.kind === 'Node') {
    return <NodeSection name={resource.metadata.name} cluster={resource.cluster} />;
  }
  return null;
}
