import { expect, test } from 'vitest'
import { type CreationFacts, type CreationTerms, judgeCreation } from '../../src/domain/creation.ts'

const TERMS: CreationTerms = { owner: null, claimFor: 'me', maxLive: 3, labelQuota: { key: 'box', value: 'true', max: 1 } }
const NOTHING: CreationFacts = { owner: null, live: 0, labeled: 0 }

test.each<[string, Partial<CreationFacts>, Partial<CreationTerms>, unknown]>([
  ['nobody owns the scope: it is claimed', {}, {}, { outcome: 'admitted', owner: 'me' }],
  ['nobody owns it and nobody claims it', {}, { claimFor: null }, { outcome: 'admitted', owner: null }],
  ['its owner stays', { owner: 'she' }, { owner: 'she', claimFor: null }, { outcome: 'admitted', owner: 'she' }],
  ['it has come to somebody since', { owner: 'she' }, {}, { outcome: 'claimed' }],
  ['it has come to nobody since', {}, { owner: 'she' }, { outcome: 'claimed' }],
  ['one below the limit', { live: 2 }, {}, { outcome: 'admitted', owner: 'me' }],
  ['at the limit of the tenant', { live: 3 }, {}, { outcome: 'quota', max: 3 }],
  ['at the limit of the label', { live: 1, labeled: 1 }, {}, { outcome: 'quota', max: 1 }],
  ['without a limit of a label', { live: 1, labeled: 1 }, { labelQuota: null }, { outcome: 'admitted', owner: 'me' }],
])('%s', (_, facts, terms, verdict) => {
  expect(judgeCreation({ ...NOTHING, ...facts }, { ...TERMS, ...terms })).toEqual(verdict)
})
