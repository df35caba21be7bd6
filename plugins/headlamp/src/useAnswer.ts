// Reads an answer when a component appears, and again when its question changes or the user asks for it.

import { useCallback, useEffect, useState } from 'react';
import { ServiceError } from './service';

export interface Asked<Answer> {
  /** Null while it is read for the first time, or if there is a failure. */
  answer: Answer | null;
  failure: ServiceError | null;
  isLoading: boolean;
  refresh: () => void;
}

/** Return the result of `ask`, which runs again when `question` changes. */
export function useAnswer<Answer>(question: string, ask: () => Promise<Answer>): Asked<Answer> {
  const [state, setState] = useState<{
    question: string;
    answer?: Answer;
    failure?: ServiceError;
  }>();
  const [round, setRound] = useState(0);
  const [isLoading, setLoading] = useState(true);
  useEffect(() => {
    let isCurrent = true;
    setLoading(true);
    const finish = (found: { answer?: Answer; failure?: ServiceError }) => {
      if (!isCurrent) return;
      setState({ question, ...found });
      setLoading(false);
    };
    ask().then(
      answer => finish({ answer }),
      failure => finish({ failure: asServiceError(failure) })
    );
    return () => {
      isCurrent = false;
    };
    // `ask` is a new function each time; `question` tells whether it asks something else
    // eslint-disable-next-line react-hooks/exhaustive-deps
  }, [question, round]);
  const refresh = useCallback(() => setRound(n => n + 1), []);
  const current = state?.question === question ? state : undefined;
  return {
    answer: current?.answer ?? null,
    failure: current?.failure ?? null,
    isLoading,
    refresh,
  };
}

function asServiceError(failure: any): ServiceError {
  if (failure instanceof ServiceError) return failure;
  return new ServiceError('Other', String(failure?.message ?? failure), true);
}
