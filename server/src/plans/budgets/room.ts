import { route } from '../../kernel/foundation/operation.ts'
import type { Room } from '../../kernel/foundation/room.ts'
import type { Service } from '../../kernel/foundation/service.ts'
import * as budgets from './budgets.ts'
import * as contract from './contract.ts'

export const budgetsRoom: Room<Service> = {
  tags: {
    Budgets: 'Limits on what the agent uses, in tokens and in money.',
  },
  routes: [
    route(contract.getBudgets, budgets.getBudgets),
    route(contract.updateBudgets, budgets.updateBudgets),
    route(contract.getEndUserBudget, budgets.getEndUserBudget),
    route(contract.updateEndUserBudget, budgets.updateEndUserBudget),
  ],
  tools: [],
}
