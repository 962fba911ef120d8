import type { Models } from '../../agent/models/models.ts'
import { bind } from '../../kernel/foundation/operation.ts'
import type { Room } from '../../kernel/foundation/room.ts'
import type { Service } from '../../kernel/foundation/service.ts'
import type { PreviewTokens } from '../../visitors/tickets/preview-tokens.ts'
import * as contract from './contract.ts'
import { startPreview } from './preview.ts'

export const previewRoom: Room<Service & { models: Models; previewTokens: PreviewTokens }> = {
  tags: {},
  routes: bind(contract, { startPreview }),
  tools: [],
}
