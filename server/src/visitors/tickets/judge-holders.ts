import type { Service } from '../../kernel/foundation/service.ts'
import type { Sql } from '../../kernel/stores/database.ts'
import { type FrameStanding, findFrameStandings } from './frames.ts'
import type { TicketHolder } from './signed-tickets.ts'
import { findStanding, type Standing } from './standing.ts'

/** Whether a ticket still stands, and what its frame's key is worth. */
export interface Judgement {
  standing: Standing
  frame: FrameStanding | undefined
}

/** In the order of the holders. */
export const judgeHolders = (
  { database, config }: Pick<Service, 'database' | 'config'>,
  organizationId: string,
  holders: readonly TicketHolder[],
): Promise<Judgement[]> => database.asOrg(organizationId, (sql) => judge(sql, config, holders))

/** The same for one holder who asks to be let in. */
export const judgeArrival = async (
  { database, config }: Pick<Service, 'database' | 'config'>,
  holder: TicketHolder,
): Promise<Judgement> =>
  (await database.asHolder(holder, (sql) => judge(sql, config, [holder])))[0] ?? {
    standing: 'key_revoked',
    frame: undefined,
  }

async function judge(sql: Sql, config: Service['config'], holders: readonly TicketHolder[]): Promise<Judgement[]> {
  const [standings, frames] = await Promise.all([
    findStanding(sql, config, holders),
    findFrameStandings(sql, config, holders),
  ])
  return standings.map((standing, index) => ({ standing, frame: frames[index] }))
}
