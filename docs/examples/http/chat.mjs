// Asks an agent through the official client of OpenAI's API for Node: at once, as it is written, and in the newer form of the API.
//
//     npm install openai
//     limulus serve &
//     export OPENAI_BASE_URL=http://127.0.0.1:18789/v1 OPENAI_API_KEY=$(limulus gateway token)
//     node chat.mjs "What is in this folder?"

import OpenAI from "openai";

const client = new OpenAI();
const asked = process.argv[2] ?? "What is in this folder?";
const agents = [];
for await (const model of client.models.list()) agents.push(model.id);
console.log("agents:", agents.join(", "));

const messages = [{ role: "user", content: asked }];
const answer = await client.chat.completions.create({ model: "main", messages });
console.log(answer.choices[0].message.content);
console.log(`(${answer.choices[0].finish_reason}, ${answer.usage.total_tokens} tokens)`);

// With a name of the user the session remembers: only the new message is sent on.
for await (const part of await client.chat.completions.create({ model: "main", user: "ada", messages, stream: true })) {
  process.stdout.write(part.choices[0]?.delta.content ?? "");
}
console.log();

// A response goes on in the session of the one that it names.
const first = await client.responses.create({ model: "main", input: asked });
const stream = client.responses.stream({ model: "main", input: "And now?", previous_response_id: first.id });
for await (const event of stream) {
  if (event.type === "response.output_text.delta") process.stdout.write(event.delta);
}
console.log(` (${(await stream.finalResponse()).status})`);
