// The service, asked. What it refuses becomes an error with its reason.

export class Refused extends Error {
  constructor(status, reason) {
    super(reason);
    this.status = status;
  }
}

async function asked(path, options, token) {
  const headers = { ...options.headers, ...(token ? { Authorization: `Bearer ${token}` } : {}) };
  let response;
  try {
    response = await fetch(path, { ...options, headers });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refused(0, "The service does not answer.");
  }
  let answer = null;
  try {
    answer = await response.json();
  } catch {
    // No JSON: something between here and the service has answered.
  }
  if (response.ok && answer !== null) return answer;
  throw new Refused(response.status, answer?.reason ?? `The service answered ${response.status}.`);
}

export const model = (token) => asked("model", {}, token);

export function predict(text, wish, token, signal) {
  const body = JSON.stringify({ texts: [text], ...wish });
  return asked("predict", { method: "POST", headers: { "Content-Type": "application/json" }, body, signal }, token);
}
