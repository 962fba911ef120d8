import { texts } from '../../lib/texts.ts'

export const t = texts('mcpClients', {
  terminal: 'In a terminal',
  settings: (file: string) => `Or in ${file}`,
  file: (file: string) => `In ${file}`,
  config: 'As configuration',
  urlOnly: 'URL of the server',
  claudeNext: 'Start claude, enter /mcp and choose Authenticate.',
  codexNext: 'Codex opens the browser. If it doesn’t, run codex mcp login inlay.',
  cursorNext: 'Cursor asks whether to install the server, and then to sign in.',
  codeNext: 'Start the server when VS Code asks to, and sign in. Its tools are in the chat’s agent mode.',
  inspectorNext: 'The inspector opens in your browser. Choose Connect, and sign in.',
  inspectorCall: 'Call a tool without a browser',
  otherNext:
    'Choose Streamable HTTP if the client asks for a transport. It finds out the rest and opens the browser to sign in.',
  installCursor: 'Add to Cursor',
  installCode: 'Add to VS Code',
  other: 'Any client',
})

export interface McpClient {
  id: string
  name: string
  /** Opens the client and adds the server. */
  install?: { name: string; href: string }
  snippets: { label: string; code: string }[]
  next: string
}

const json = (value: unknown) => JSON.stringify(value, null, 2)

/** How to connect each client to the server at this URL. */
export function describeClients(url: string): McpClient[] {
  const http = { type: 'http', url }
  const named = JSON.stringify({ name: 'inlay', ...http })
  return [
    {
      id: 'claude-code',
      name: 'Claude Code',
      snippets: [{ label: t.terminal, code: `claude mcp add --transport http inlay ${url}` }],
      next: t.claudeNext,
    },
    {
      id: 'codex',
      name: 'Codex',
      snippets: [
        { label: t.terminal, code: `codex mcp add inlay --url ${url}` },
        { label: t.settings('~/.codex/config.toml'), code: `[mcp_servers.inlay]\nurl = "${url}"` },
      ],
      next: t.codexNext,
    },
    {
      id: 'cursor',
      name: 'Cursor',
      install: {
        name: t.installCursor,
        href: `cursor://anysphere.cursor-deeplink/mcp/install?name=inlay&config=${encodeURIComponent(btoa(JSON.stringify({ url })))}`,
      },
      snippets: [{ label: t.file('~/.cursor/mcp.json'), code: json({ mcpServers: { inlay: { url } } }) }],
      next: t.cursorNext,
    },
    {
      id: 'vs-code',
      name: 'VS Code',
      install: { name: t.installCode, href: `vscode:mcp/install?${encodeURIComponent(named)}` },
      snippets: [
        { label: t.terminal, code: `code --add-mcp '${named}'` },
        { label: t.settings('.vscode/mcp.json'), code: json({ servers: { inlay: http } }) },
      ],
      next: t.codeNext,
    },
    {
      id: 'inspector',
      name: 'Inspector',
      snippets: [
        { label: t.terminal, code: `npx @modelcontextprotocol/inspector --transport http --server-url ${url}` },
        {
          label: t.inspectorCall,
          code: `TOKEN=$(npx inlay token --email you@example.com --org your-organization)
npx @modelcontextprotocol/inspector --cli ${url} --transport http \\
  --header "Authorization: Bearer $TOKEN" --method tools/call --tool-name echo --tool-arg message=hi`,
        },
      ],
      next: t.inspectorNext,
    },
    {
      id: 'other',
      name: t.other,
      snippets: [
        { label: t.urlOnly, code: url },
        { label: t.config, code: json({ mcpServers: { inlay: http } }) },
      ],
      next: t.otherNext,
    },
  ]
}
