/** At most so many live sessions of a tenant have the label. */
export type LabelQuota = { key: string; value: string; max: number }

/** What a new session has to meet, beside being the only live one of its scope. */
export type CreationTerms = {
  /** Whose the scope was when access was decided; when that has changed, access is to be decided again. */
  owner: string | null
  /** The principal that claims the scope with the session when nobody has; null where the authorizer needs no claim. */
  claimFor: string | null
  /** Live sessions that a tenant may have. */
  maxLive: number
  /** The same for those with a label; null: no more than that. */
  labelQuota: LabelQuota | null
}

/** How things stand in the transaction of the creation: whose the scope is, the tenant's live sessions, and those with the label. */
export type CreationFacts = { owner: string | null; live: number; labeled: number }

/** `owner`: whose the scope is from now on, where that is somebody's. */
export type CreationVerdict = { outcome: 'admitted'; owner: string | null } | { outcome: 'claimed' } | { outcome: 'quota'; max: number }

/** Whether a session may be made: `claimed` where the scope has come to another owner, or to none, in the meantime [C-02]. */
export function judgeCreation({ owner, live, labeled }: CreationFacts, terms: CreationTerms): CreationVerdict {
  const { claimFor, maxLive, labelQuota } = terms
  if (owner !== terms.owner) return { outcome: 'claimed' }
  if (live >= maxLive) return { outcome: 'quota', max: maxLive }
  if (labelQuota !== null && labeled >= labelQuota.max) return { outcome: 'quota', max: labelQuota.max }
  return { outcome: 'admitted', owner: owner ?? claimFor }
}
