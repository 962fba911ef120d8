import type { Adapter, AdapterPayload } from 'oidc-provider'
import { fingerprint } from '../lib/secrets.ts'
import type { Foundation } from '../service.ts'
import { errors } from './library.ts'
import { findRecord, recordKey, revokeGrant, unusedClientSeconds } from './records.ts'

const consumedKey = (model: string, id: string) => `${recordKey(model, id)}:consumed`
const sessionUidKey = (uid: string) => `oauth:session-uid:${fingerprint(uid)}`

/** Codes, tokens, sessions and clients of the authorization server in the key-value store. */
export const createKvAdapter =
  (foundation: Pick<Foundation, 'kv' | 'changes'>) =>
  (model: string): Adapter => {
    const { kv } = foundation
    const find = async (id: string): Promise<AdapterPayload | undefined> => {
      const [payload, consumed] = await Promise.all([findRecord(kv, model, id), kv.get<number>(consumedKey(model, id))])
      return payload && consumed ? { ...payload, consumed } : payload
    }
    return {
      find,
      async findByUid(uid) {
        const id = await kv.get<string>(sessionUidKey(uid))
        return id === undefined ? undefined : find(id)
      },
      async upsert(id, payload, expiresIn) {
        const seconds = model === 'Client' ? unusedClientSeconds : Math.max(expiresIn ?? 0, 1)
        if (model === 'Session' && payload.uid) await kv.set(sessionUidKey(payload.uid), id, seconds)
        await kv.set(recordKey(model, id), payload, seconds)
      },
      /** Of several uses at once one succeeds; the others are a replay, which ends everything that was granted. */
      async consume(id) {
        const payload = await kv.get<AdapterPayload>(recordKey(model, id))
        const now = Math.floor(Date.now() / 1000)
        const secondsLeft = Math.max((payload?.exp ?? now) - now, 1)
        if (payload && (await kv.setIfAbsent(consumedKey(model, id), now, secondsLeft))) return
        if (payload?.grantId) await revokeGrant(foundation, payload.grantId)
        throw new errors.InvalidGrant('already used')
      },
      destroy: (id) => kv.delete(recordKey(model, id)),
      revokeByGrantId: (grantId) => revokeGrant(foundation, grantId),
      async findByUserCode() {
        throw new Error('There is no device flow')
      },
    }
  }
