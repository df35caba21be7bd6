// Numbers, times and states as people read them. Pure, except that ages depend on the clock.

const UNITS: Array<[string, number]> = [
  ['d', 86400],
  ['h', 3600],
  ['m', 60],
  ['s', 1],
];
const SCHEDULED = ['Bound', 'DryRun'];
const REJECTED = ['Unschedulable', 'Failed', 'Error'];

/** `12,345`; a dash for an unknown number. */
export function number(value: number | null | undefined, digits = 0): string {
  if (value === null || value === undefined) return '–';
  return value.toLocaleString('en', { maximumFractionDigits: digits });
}

/** `61%`; a dash for an unknown share. */
export function percent(share: number | null | undefined): string {
  return share === null || share === undefined
    ? '–'
    : `${number(share * 100, share < 0.1 ? 1 : 0)}%`;
}

/** `1 node`, `5 nodes`. */
export function count(n: number, what: string): string {
  return `${number(n)} ${what}${n === 1 ? '' : 's'}`;
}

/** `4m12s`: the two largest units. */
export function duration(seconds: number): string {
  if (seconds < 1) return '0s';
  let left = Math.round(seconds);
  const parts: string[] = [];
  for (const [unit, length] of UNITS) {
    const n = Math.floor(left / length);
    if (n && parts.length < 2) parts.push(`${number(n)}${unit}`);
    left -= n * length;
  }
  return parts.join('');
}

/** Return the seconds from now until a time; negative if it has passed. */
export function secondsUntil(timestamp: string): number {
  return Math.round((new Date(timestamp).getTime() - Date.now()) / 1000);
}

/** `4m12s ago`. */
export function ago(timestamp: string | null | undefined): string {
  if (!timestamp) return '–';
  const seconds = -secondsUntil(timestamp);
  return seconds < 1 ? 'just now' : `${duration(seconds)} ago`;
}

/** `4m12s`: how long ago a time was. */
export function age(timestamp: string | null | undefined): string {
  return timestamp ? duration(Math.max(0, -secondsUntil(timestamp))) : '–';
}

/** When the scheduler tries a pod again, by the time limits of its queue. */
export function nextTry(notBefore: string, latest: string | null): string {
  const earliest = secondsUntil(notBefore);
  if (!latest)
    return earliest > 0 ? `in ${duration(earliest)}` : 'as soon as the scheduler reaches it';
  const last = secondsUntil(latest);
  if (last <= 0) return 'overdue: the scheduler does not run, or the pod was deleted';
  return `on an event that may help${
    earliest > 0 ? ` after ${duration(earliest)}` : ''
  }, or in ${duration(last)}`;
}

/** The colour of Headlamp's label for the state of a decision. */
export function statusOf(state: string): 'success' | 'warning' | 'error' {
  if (SCHEDULED.includes(state)) return 'success';
  return REJECTED.includes(state) ? 'error' : 'warning';
}
