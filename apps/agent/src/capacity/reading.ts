/** How much of one thing is in use, and how much there is. */
export type Reading = { used: number; limit: number }
