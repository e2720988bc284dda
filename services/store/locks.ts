/** Keys of advisory locks, by purpose. Arbitrary numbers, the same for every process. */
export const LOCKS = { migrate: 7_230_001, sealAudit: 7_230_002, makeKey: 7_230_003 } as const;
