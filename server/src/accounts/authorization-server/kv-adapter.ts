import type { Adapter, AdapterPayload } from 'oidc-provider'
import type { Service } from '../../kernel/foundation/service.ts'
import { fingerprint } from '../../kernel/lib/secrets.ts'
import { keepNewest } from '../../kernel/stores/keep-newest.ts'
import { addClient, findClient, findRecord, recordKey, revokeGrant } from '../access/records.ts'
import { errors } from './library.ts'

const consumedKey = (model: string, id: string) => `${recordKey(model, id)}:consumed`
const sessionUidKey = (uid: string) => `oauth:session-uid:${fingerprint(uid)}`

/** Limits on the number and size of records that unauthenticated visitors can make the server store. */
const anonymous: Record<string, { limit: number; bytes: number }> = {
  Interaction: { limit: 10_000, bytes: 6 * 1024 },
  Session: { limit: 5_000, bytes: 4 * 1024 },
  ReplayDetection: { limit: 20_000, bytes: 1024 },
}

/** Processes that share a refresh token may use it concurrently: within this time, each use gets the same successor. */
const reuseSeconds = 10

/** Stores the authorization server's codes, tokens, sessions and clients in the key-value store. */
export const createKvAdapter =
  (service: Pick<Service, 'kv' | 'changes' | 'clock'>) =>
  (model: string): Adapter => {
    const { kv, clock } = service
    const isReusable = (consumed: number) => model === 'RefreshToken' && clock() / 1000 - consumed <= reuseSeconds
    const find = async (id: string): Promise<AdapterPayload | undefined> => {
      if (model === 'Client') return findClient(kv, id)
      const [payload, consumed] = await Promise.all([findRecord(kv, model, id), kv.get<number>(consumedKey(model, id))])
      return payload && consumed && !isReusable(consumed) ? { ...payload, consumed } : payload
    }
    async function boundAnonymous(id: string, payload: AdapterPayload, seconds: number): Promise<void> {
      const bounds = anonymous[model]
      if (!bounds) return
      if (Buffer.byteLength(JSON.stringify(payload)) > bounds.bytes) {
        throw new errors.InvalidRequest('The request is too large')
      }
      const key = recordKey(model, id)
      const isNew = (await kv.get(key)) === undefined
      if (isNew) await keepNewest(kv, { kind: `oauth:${model}`, limit: bounds.limit, seconds }, key)
    }

    return {
      find,
      async findByUid(uid) {
        const id = await kv.get<string>(sessionUidKey(uid))
        return id === undefined ? undefined : find(id)
      },
      async upsert(id, payload, expiresIn) {
        if (model === 'Client') return addClient(kv, id, payload)
        const seconds = Math.max(expiresIn ?? 0, 1)
        if (!payload.accountId) await boundAnonymous(id, payload, seconds)
        if (model === 'Session' && payload.uid && payload.accountId)
          await kv.set(sessionUidKey(payload.uid), id, seconds)
        // Reusing the same predecessor must not make this token outlive its `consumed` mark.
        if (model === 'RefreshToken') await kv.setIfAbsent(recordKey(model, id), payload, seconds)
        else await kv.set(recordKey(model, id), payload, seconds)
      },
      /** Succeeds once. Any other use is a replay and revokes the grant, unless the token may still be reused. */
      async consume(id) {
        const payload = await kv.get<AdapterPayload>(recordKey(model, id))
        const now = Math.floor(Date.now() / 1000)
        const secondsLeft = Math.max((payload?.exp ?? now) - now, 1)
        const key = consumedKey(model, id)
        if (payload && (await kv.setIfAbsent(key, clock() / 1000, secondsLeft))) return
        const consumed = payload && (await kv.get<number>(key))
        if (consumed && isReusable(consumed)) return
        if (payload?.grantId) await revokeGrant(service, payload.grantId)
        throw new errors.InvalidGrant('already used')
      },
      destroy: (id) => kv.delete(recordKey(model, id)),
      revokeByGrantId: (grantId) => revokeGrant(service, grantId),
      async findByUserCode() {
        throw new Error('The device flow is not supported')
      },
    }
  }
