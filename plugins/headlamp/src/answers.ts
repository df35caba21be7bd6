// Types of answers, from their JSON Schemas (`kubectl herodotus schema`).
// This file is generated (`python -m scripts.headlamp_types`). A newer service may add fields, and an older one may
// lack some.

/** How often a node was considered, rejected and chosen in a time window, and why. */
export interface NodeHistory {
  /** API version of this document. */
  apiVersion?: string;
  kind: "NodeHistory";
  /** Standard object's metadata. */
  metadata?: {
    /** Name of the object: the id of a decision, or the name of a pod, node or workload. */
    name?: string;
    /** Namespace of the pod. */
    namespace?: string;
    /** UID of the object. */
    uid?: string;
    /** Opaque version of the object. */
    resourceVersion?: string;
    /** Time at which the attempt or process began. */
    creationTimestamp?: string;
    /** Labels of the pod, and labels of the service such as herodotus.dev/state, for label selectors. */
    labels?: Record<string, string>;
  };
  /** `evaluated` if the answer is an evaluation of the present cluster, which local mode makes. */
  source?: string;
  /** Time window in which decisions are counted. */
  window?: {
    /** Start of the window. */
    from?: string;
    /** End of the window. */
    to?: string;
    /** Length of a bucket in seconds. */
    bucketSeconds?: number;
  };
  /** Number of decisions whose snapshot had the node. */
  considered?: number;
  /** Number of decisions whose filters evaluated the node. */
  evaluated?: number;
  /** Number of decisions in which the node passed every filter. */
  feasible?: number;
  /** Number of decisions that chose the node. */
  chosen?: number;
  /** Number of decisions that did not evaluate the node. */
  notEvaluated?: number;
  /** Evaluations of the node and how many of them it passed, as counts and as a rate. */
  eligibility?: Record<string, any>;
  /** The same counts for buckets of whole hours. */
  overTime?: Array<Record<string, any>>;
  /** Number of verdicts and reasons of each filter. */
  filters?: Array<Record<string, any>>;
  /** Scores that the plugins gave the node. */
  scores?: Record<string, any>;
  /** Decisions that the node won: its lead, and the plugin that contributed most to it. */
  won?: Record<string, any>;
  /** Decisions that the node lost: the plugin that cost it most. */
  lost?: Record<string, any>;
  /** Workloads with the most pods placed on the node; all hidden workloads count as one. */
  workloads?: Array<Record<string, any>>;
  /** Number of workloads that are not listed. */
  workloadsOmitted?: number;
  /** Newest decisions whose snapshot had the node. */
  recent?: Array<Record<string, any>>;
  /** Maximum number of decisions that are searched for `recent`. */
  recentOf?: number;
  /** Placements on all nodes, and the highest number of nodes in an hour, to compare with this node. */
  share?: Record<string, any>;
  /** Workloads with the most pods placed on the node, with the plugins that decided. */
  keepsGetting?: Array<Record<string, any>>;
  /** Number of placements on the node for which the deciding plugin was counted. */
  keepsGettingOf?: number;
}

/** Pods whose last attempt did not find a node. */
export interface PendingPods {
  /** API version of this document. */
  apiVersion?: string;
  kind: "PendingPods";
  /** Standard object's metadata. */
  metadata?: {
    /** Name of the object: the id of a decision, or the name of a pod, node or workload. */
    name?: string;
    /** Namespace of the pod. */
    namespace?: string;
    /** UID of the object. */
    uid?: string;
    /** Opaque version of the object. */
    resourceVersion?: string;
    /** Time at which the attempt or process began. */
    creationTimestamp?: string;
    /** Labels of the pod, and labels of the service such as herodotus.dev/state, for label selectors. */
    labels?: Record<string, string>;
  };
  /** Time of the request. */
  at?: string;
  /** Number of pending pods. */
  count?: number;
  /** Number of pending pods whose retry is overdue. */
  overdue?: number;
  /** Pending pods, grouped by the reason of most nodes. */
  groups?: Array<Record<string, any>>;
  /** Pending pods, oldest first. */
  pods?: Array<Record<string, any>>;
  /** Number of pods that are not listed. */
  podsOmitted?: number;
  /** `evaluated` if the answer is an evaluation of the present cluster, which local mode makes. */
  source?: string;
  /** Present and true if no scheduler has ever sent records. */
  noRecords?: boolean;
  /** Pods that were pending by their records but that the API server has placed or no longer has. */
  gone?: Array<{
    /** Namespace. */
    namespace?: string;
    /** Name. */
    pod?: string;
    /** UID. */
    uid?: string;
    /** Start of its last attempt. */
    startedAt?: string | null;
    /** What became of it; null if unknown. */
    fate?: "deleted" | "replaced" | "placed" | null;
  }>;
}

/** Explanation of one attempt to schedule a pod: its result, and the verdicts and scores behind it. */
export interface PodExplanation {
  /** API version of this document. */
  apiVersion?: string;
  kind: "PodExplanation";
  /** Standard object's metadata. */
  metadata?: {
    /** Name of the object: the id of a decision, or the name of a pod, node or workload. */
    name?: string;
    /** Namespace of the pod. */
    namespace?: string;
    /** UID of the object. */
    uid?: string;
    /** Opaque version of the object. */
    resourceVersion?: string;
    /** Time at which the attempt or process began. */
    creationTimestamp?: string;
    /** Labels of the pod, and labels of the service such as herodotus.dev/state, for label selectors. */
    labels?: Record<string, string>;
  };
  /** Result of the attempt in one sentence. */
  headline?: string;
  /** Result of the attempt with the reasons. */
  summary?: string;
  /** Message of the pod's FailedScheduling event. */
  message?: string;
  /** The pod that the attempt was for. */
  pod?: Record<string, any>;
  /** Number and times of the attempt, and the number of the pod's attempts. */
  attempt?: Record<string, any>;
  /** Outcome of the attempt: its state and its binding phases. */
  outcome?: Record<string, any>;
  /** Number of nodes in the snapshot, of evaluated nodes and of feasible nodes. */
  nodes?: Record<string, any>;
  /** Feasible nodes with the highest totals. */
  ranking?: Array<Record<string, any>>;
  /** Rejected nodes, grouped by reason. */
  rejections?: Array<Record<string, any>>;
  /** Changes that may help; not checked. */
  possibleChanges?: Array<string>;
  /** Changes after which the pod would fit, the smallest first. */
  suggestions?: Array<{
    /** Kind of the change, such as set-request or uncordon. */
    kind?: string;
    /** Object that is changed, as KIND/NAME. */
    object?: string;
    /** Field that is changed. */
    field?: string;
    /** Value before the change; null if there is none. */
    from?: string | null;
    /** Value after the change; null if the field is removed. */
    to?: string | null;
    /** Further changes that are needed together with it. */
    also?: Array<{
      /** Kind of the change, such as set-request or uncordon. */
      kind?: string;
      /** Object that is changed, as KIND/NAME. */
      object?: string;
      /** Field that is changed. */
      field?: string;
      /** Value before the change; null if there is none. */
      from?: string | null;
      /** Value after the change; null if the field is removed. */
      to?: string | null;
    }>;
    /** Node on which the pod then fits. */
    node?: string;
    /** The changes as a sentence. */
    text?: string;
    /** Shell command that makes the changes; null if none is known. */
    command?: string | null;
    /** Objects that the command deletes, as KIND/NAME. */
    deletes?: Array<string>;
    /** Rights that the command needs. */
    rights?: Array<{
      /** Verb of the request. */
      verb?: string;
      /** Resource with its API group, such as statefulsets.apps. */
      resource?: string;
      /** Namespace; empty for nodes. */
      namespace?: string;
    }>;
    /** Whether the pod with the changes passed all filters on the snapshot of the attempt. */
    checked?: boolean;
  }>;
  /** Devices that the pod's resource claims have on the chosen node. */
  devices?: Array<Record<string, any>>;
  /** How the devices that a request could use are spread over nodes; null if nothing lacks. */
  deviceShortage?: Record<string, any> | null;
  /** Nodes that shared the best total, and how one of them was chosen. */
  tie?: Record<string, any> | null;
  /** Lead of the best node over the next best one. */
  margin?: Record<string, any> | null;
  /** PreFilter plugins that did not succeed. */
  preFilters?: Array<Record<string, any>>;
  /** PreFilter plugins that restricted the nodes to evaluate. */
  restrictedBy?: Array<string>;
  /** Number of nodes that each filter passed and rejected. */
  filters?: Array<Record<string, any>>;
  /** Score plugins with their weights. */
  scorePlugins?: Array<Record<string, any>>;
  /** Measurements that plugins and extenders used, one entry per source. */
  inputs?: Array<Record<string, any>>;
  /** Number of feasible nodes that are not listed. */
  rankingOmitted?: number;
  /** Nodes on which preemption could make room. */
  preemption?: Record<string, any> | null;
  /** Results of the PostFilter plugins. */
  postFilters?: Array<Record<string, any>>;
  /** Limits of the record: what it does not know, or what was switched off. */
  notes?: Array<string>;
  /** A NodeGroupReview, and notes on what it lacks: recorded, or with --node-groups. */
  nodeGroups?: Record<string, any>;
  /** Whether the outcome of another scheduler agrees with this reconstruction, and why not. */
  reconstruction?: Record<string, any> | null;
  /** Origin of each part if a log record and a reconstruction of one attempt are merged; otherwise absent. */
  origins?: {
    /** ID of each merged record, by source. */
    records?: Record<string, string>;
    /** Parts with values from the log. */
    parts?: Array<{
      /** Path of the part. */
      part?: string;
      /** Description of the part. */
      text?: string;
      /** Sources of the part: logged, or both if each provides values. */
      from?: Array<string>;
      /** Number of values in which the reconstruction differs from the log. */
      overruled?: number;
    }>;
    /** Source of all other parts. */
    rest?: string;
    /** Headline of the reconstruction alone. */
    evaluation?: string;
  };
  /** Where the decision comes from, if it is in the archive and not in the database any more. */
  archive?: {
    /** UTC day in which the service stored it. */
    day?: string;
  };
  /** Summary that replaces a pruned record; null if the record is complete. Fields with an entry per node then contain only the kept nodes. */
  pruned?: {
    /** Time at which retention reduced the record to a summary. */
    at?: string;
    /** Number of nodes with each value of `spec.evaluation`. */
    evaluation?: Record<string, number>;
    /** Number of nodes with each verdict, for each filter. */
    filters?: Array<{
      /** Name of the filter plugin, or address of the extender. */
      plugin?: string;
      /** Verdicts of the filter. */
      verdicts?: Array<{
        /** kube-scheduler's status code of the verdict: Success, Error, Unschedulable, UnschedulableAndUnresolvable, Wait, Skip or Pending. */
        code?: string;
        /** Reasons of the verdict, in kube-scheduler's order. */
        reasons?: Array<{
          /** Code of the reason in the record's catalogue of reasons. */
          code?: string;
          /** Parameters of the sentence that do not follow from the pod's requests and the node's resources. */
          params?: Record<string, string>;
          /** kube-scheduler's sentence for the reason. */
          sentence?: string;
        }>;
        /** Number of nodes with the verdict. */
        nodes?: number;
        /** Number of these nodes that no earlier filter had rejected. */
        first?: number;
      }>;
    }>;
    /** Number of nodes that shared the best total; 0 if one node alone had it. */
    ties?: number;
    /** Number of nodes whose entries are kept. */
    keptNodes?: number;
    /** Sentence that says when the record was pruned and what is kept. */
    text?: string;
  } | null;
  /** All nodes as columns, if the request sets `columns`. */
  columns?: Record<string, any>;
  /** Verdicts and scores of each node, if there are few nodes or the request sets `all` or `node`. */
  perNode?: Array<Record<string, any>>;
  /** The preemption that evicted the pod, if it no longer exists. */
  preemptedBy?: Record<string, any>;
  /** The queue of Kueue or Volcano in which the pod waits, as their objects describe it; absent for other pods. */
  queue?: {
    /** Whose objects they are. */
    by?: "Kueue" | "Volcano";
    /** The pod's Workload or PodGroup, as KIND/NAME; null if it is not known. */
    object?: string | null;
    /** Kueue's LocalQueue. */
    localQueue?: string | null;
    /** Kueue's ClusterQueue, or Volcano's Queue. */
    queue?: string | null;
    /** State of the object. */
    state?: string | null;
    /** Message of the condition that says so. */
    message?: string | null;
    /** Number of pods that Volcano's PodGroup needs. */
    minMember?: number | null;
    /** Position in the LocalQueue, from 1. */
    position?: number | null;
    /** Number of Workloads or PodGroups that wait in the queue. */
    waiting?: number | null;
    /** Quota of the queue. */
    quota?: Array<{
      /** Kueue's ResourceFlavor. */
      flavor?: string | null;
      /** Name of the resource. */
      resource?: string;
      /** Amount in use. */
      used?: string | null;
      /** Nominal quota or capability. */
      limit?: string | null;
    }>;
    /** Objects that could not be read, and why. */
    notes?: Array<string>;
  };
}
