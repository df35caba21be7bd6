// Parts that several views share: tables, commands, failures, links. Texts of answers become text nodes, never markup.

import { Headlamp } from '@kinvolk/headlamp-plugin/lib';
import { Link as HeadlampLink } from '@kinvolk/headlamp-plugin/lib/CommonComponents';
import {
  Box,
  Button,
  Link,
  Table,
  TableBody,
  TableCell,
  TableContainer,
  TableHead,
  TableRow,
  Typography,
} from '@mui/material';
import { ReactNode, useState } from 'react';
import { Connection, pageAddress, ServiceError } from './service';

const DOCS = 'https://github.com/herodotus-scheduler/herodotus/blob/main/docs';
const COPIED_MS = 2500;
// a name is not broken at its hyphens, unless it is longer than a line
const WHOLE = { display: 'inline-block', maxWidth: '100%', overflowWrap: 'anywhere' };

export interface Column {
  title: string;
  isNumber?: boolean;
  /** In percent of the table, so that tables below each other align. */
  width?: number;
  /** In pixels: what a narrow screen scrolls to instead of wrapping after each word. */
  minWidth?: number;
}

/** A table that scrolls by itself where it is wider than the page. */
export function DataTable({
  label,
  columns,
  rows,
}: {
  label: string;
  columns: Column[];
  rows: Array<{ key: string; cells: ReactNode[]; isMarked?: boolean }>;
}) {
  const align = (i: number) => (columns[i].isNumber ? 'right' : 'left');
  return (
    <TableContainer sx={{ my: 1 }} role="region" aria-label={label} tabIndex={0}>
      <Table size="small">
        <TableHead>
          <TableRow>
            {columns.map((column, i) => (
              <TableCell
                key={column.title}
                align={align(i)}
                sx={{ whiteSpace: 'nowrap', py: 1, ...sizeOf(column) }}
              >
                {column.title}
              </TableCell>
            ))}
          </TableRow>
        </TableHead>
        <TableBody>
          {rows.map(row => (
            <TableRow key={row.key} selected={row.isMarked}>
              {row.cells.map((cell, i) => (
                <TableCell key={columns[i].title} align={align(i)} sx={{ verticalAlign: 'top' }}>
                  {cell}
                </TableCell>
              ))}
            </TableRow>
          ))}
        </TableBody>
      </Table>
    </TableContainer>
  );
}

function sizeOf({ width, minWidth }: Column) {
  return { width: width && `${width}%`, minWidth };
}

/** A shell command with a button that copies it. */
export function Command({ text, deletes = [] }: { text: string; deletes?: string[] }) {
  const [said, setSaid] = useState('');
  const label = deletes.length ? 'Copy (deletes)' : 'Copy';
  const copy = async () => {
    const isCopied = await copyText(text);
    setSaid(isCopied ? 'Copied' : 'Select and copy it');
    setTimeout(() => setSaid(''), COPIED_MS);
  };
  return (
    <Box
      sx={{
        display: 'flex',
        flexDirection: { xs: 'column', sm: 'row' },
        alignItems: 'flex-start',
        gap: 1,
        my: 1,
      }}
    >
      <Box
        component="pre"
        tabIndex={0}
        aria-label="Command"
        sx={{
          m: 0,
          p: 1,
          flex: '1 1 auto',
          minWidth: 0,
          maxWidth: '100%',
          overflowX: 'auto',
          fontSize: '0.85rem',
          bgcolor: 'action.hover',
          borderRadius: 1,
        }}
      >
        <code>{text}</code>
      </Box>
      <Button
        size="small"
        variant="outlined"
        color={deletes.length ? 'error' : 'primary'}
        onClick={copy}
        sx={{ flex: 'none' }}
      >
        {said || label}
      </Button>
    </Box>
  );
}

/** Return whether the text is in the clipboard now. Browsers refuse it to pages without TLS. */
async function copyText(text: string): Promise<boolean> {
  if (!navigator.clipboard) return false;
  return navigator.clipboard.writeText(text).then(
    () => true,
    () => false
  );
}

/** A link to a node's page in Headlamp. */
export function NodeLink({ name }: { name: string }) {
  return (
    <Box component="span" sx={WHOLE}>
      <HeadlampLink routeName="node" params={{ name }}>
        {name}
      </HeadlampLink>
    </Box>
  );
}

/** A link to a pod's page in Headlamp. A pod that the reader may not see has no namespace, and no link. */
export function PodLink({ namespace, name }: { namespace: string; name: string }) {
  if (!namespace || !name) return <>{name || namespace}</>;
  return (
    <Box component="span" sx={WHOLE}>
      <HeadlampLink routeName="pod" params={{ namespace, name }}>
        {namespace}/{name}
      </HeadlampLink>
    </Box>
  );
}

/** A link to a web page of the decisions service, or the command that opens the pages. */
export function PageLink({
  connection,
  view,
  params,
  children,
}: {
  connection: Connection;
  view: string;
  params: Record<string, string>;
  children: string;
}) {
  const baseUrl = String((window as any).headlampBaseUrl ?? '').replace(/^\.?\/*$|\/+$/g, '');
  const isApp = Headlamp.isRunningAsApp();
  const address = pageAddress(connection, view, params, isApp, baseUrl);
  if (!address) {
    return (
      <Typography variant="body2" color="text.secondary">
        {children}: <code>kubectl herodotus ui</code>
      </Typography>
    );
  }
  return (
    <Link href={address} target="_blank" rel="noopener noreferrer">
      {children}
    </Link>
  );
}

/** What failed, and what to do. `rights` names the ClusterRole that a reader with the APIService needs. */
export function Failure({
  failure,
  connection,
  rights,
  command,
}: {
  failure: ServiceError;
  connection: Connection;
  rights: string;
  command: string;
}) {
  const { namespace, name, port } = connection.settings;
  const service = `${namespace}/${name}:${port}`;
  const told: Record<ServiceError['kind'], { title: string; steps: ReactNode[] }> = {
    NotInstalled: {
      title: `No decisions service was found at ${service}.`,
      steps: [
        <>
          Install it: <DocsLink page="installing.md" />
        </>,
        'If it is elsewhere, set its address: Settings, Plugins, herodotus.',
        <>
          Without a service, kubectl answers on your machine: <code>{command}</code>
        </>,
      ],
    },
    NotReachable: {
      title: `The decisions service at ${service} does not answer.`,
      steps: [
        <>
          Is it running? <code>kubectl -n {namespace} get pods</code>
        </>,
        'If it is elsewhere, set its address: Settings, Plugins, herodotus.',
      ],
    },
    Forbidden: {
      title: 'You may not read this answer.',
      steps: failure.viaProxy
        ? [
            `Ask an administrator for the Role herodotus-reader in the namespace ${namespace}: it opens the service's proxy, and with it the decisions about all pods.`,
            'If no decisions service is installed, the API server refuses the request as well.',
          ]
        : [`Ask an administrator for ${rights}.`],
    },
    Unauthorized: {
      title: 'The decisions service does not know who you are.',
      steps: [
        'Log in to this cluster again.',
        <>
          If that does not help, the service identifies its readers, but is not registered as an
          APIService: <DocsLink page="decisions-api.md" />
        </>,
      ],
    },
    NoRecord: { title: 'No decision is recorded.', steps: [] },
    Other: { title: 'The decisions service reported an error.', steps: [] },
  };
  const { title, steps } = told[failure.kind];
  return (
    <Box role="alert" sx={{ p: 2 }}>
      <Typography>{title}</Typography>
      {steps.length > 0 && (
        <Box component="ul" sx={{ my: 1, pl: 3 }}>
          {steps.map((step, i) => (
            <Typography component="li" variant="body2" key={i} sx={{ overflowWrap: 'anywhere' }}>
              {step}
            </Typography>
          ))}
        </Box>
      )}
      <Typography variant="body2" color="text.secondary" sx={{ overflowWrap: 'anywhere' }}>
        {failure.message}
      </Typography>
    </Box>
  );
}

function DocsLink({ page }: { page: string }) {
  return (
    <Link href={`${DOCS}/${page}`} target="_blank" rel="noopener noreferrer">
      {page}
    </Link>
  );
}
