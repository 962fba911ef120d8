import { request } from 'node:http'

/**
 * The client command that the conformance suite starts once per scenario. It forwards the scenario to the test, whose
 * address is the first argument: starting a process that loads the hub each time would take far longer than a scenario.
 */
const [, , testUrl = '', serverUrl] = process.argv
const { MCP_CONFORMANCE_SCENARIO: scenario, MCP_CONFORMANCE_CONTEXT: context = '{}' } = process.env
request(testUrl, { method: 'POST' }, (response) => response.resume()).end(
  JSON.stringify({ scenario, serverUrl, context: JSON.parse(context) }),
)
