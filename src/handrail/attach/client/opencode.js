// Copied by `handrail attach`. Tells Handrail's helper what opencode's own tools do. Bash reads `bash-env` before it runs
// a command, after opencode has decided about it.
import { spawn } from "node:child_process"
import { fileURLToPath } from "node:url"

const launcher = fileURLToPath(new URL("handrail-run", import.meta.url))
const bashEnv = fileURLToPath(new URL("bash-env", import.meta.url))

function ask(event) {
  return new Promise((resolve) => {
    const child = spawn(launcher, ["hook", "opencode"])
    let answer = ""
    let error = ""
    child.stdout.on("data", (part) => (answer += part))
    child.stderr.on("data", (part) => (error += part))
    child.on("error", () => resolve({}))
    child.on("close", (code) => {
      if (code === 2) resolve({ permissionDecision: "deny", permissionDecisionReason: error.trim() })
      else resolve(JSON.parse(answer || "{}").hookSpecificOutput ?? {})
    })
    child.stdin.on("error", () => {})
    child.stdin.end(JSON.stringify(event))
  })
}

export const Handrail = async ({ directory }) => {
  const tell = (name, sessionID, fields) => ask({ hook_event_name: name, session_id: sessionID, cwd: directory, ...fields })
  const describe = (input, args) => ({ tool_name: input.tool, tool_input: args ?? {}, tool_use_id: input.callID })
  return {
    "chat.message": async (input, output) => {
      const prompt = output.parts.map((part) => (part.type === "text" ? part.text : "")).join("\n")
      await tell("UserPromptSubmit", input.sessionID, { prompt })
    },
    "tool.execute.before": async (input, output) => {
      const answer = await tell("PreToolUse", input.sessionID, describe(input, output.args))
      if (answer.permissionDecision === "deny") throw new Error(answer.permissionDecisionReason)
    },
    "tool.execute.after": async (input) => {
      await tell("PostToolUse", input.sessionID, describe(input, input.args))
    },
    "shell.env": async (_input, output) => {
      output.env.BASH_ENV = bashEnv
    },
    event: async ({ event }) => {
      if (event.type === "session.idle") await tell("Stop", event.properties.sessionID, {})
    },
  }
}
