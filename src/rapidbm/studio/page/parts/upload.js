// A file that is sent to the studio, and what the studio says it holds.

export async function upload(file) {
  let answer;
  try {
    answer = await fetch(`/upload?name=${encodeURIComponent(file.name)}`, { method: "POST", body: file });
  } catch {
    throw new Error(`${file.name} could not be sent: it is too large, or the studio does not answer`);
  }
  const told = await answer.json();
  if (told.error) throw new Error(`${file.name}: ${told.error}`);
  return told.answer;
}
