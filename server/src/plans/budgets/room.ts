import { bind } from '../../kernel/foundation/operation.ts'
import type { Room } from '../../kernel/foundation/room.ts'
import type { Service } from '../../kernel/foundation/service.ts'
import { getBudgets, getEndUserBudget, updateBudgets, updateEndUserBudget } from './budgets.ts'
import * as contract from './contract.ts'

export const budgetsRoom: Room<Service> = {
  tags: {
    Budgets: 'Limits on what the agent uses, in tokens and in money.',
  },
  routes: bind(contract, { getBudgets, updateBudgets, getEndUserBudget, updateEndUserBudget }),
  tools: [],
}
