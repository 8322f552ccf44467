const form = document.getElementById("login");
const error = document.getElementById("error");

form.addEventListener("submit", async (event) => {
  event.preventDefault();
  error.hidden = true;
  let text = "The server does not answer.";
  try {
    const answer = await fetch("/login", {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify({ token: document.getElementById("token").value.trim() }),
    });
    if (answer.ok) {
      location.replace("/");
      return;
    }
    text = (await answer.json()).error;
  } catch {
    // The text above says it.
  }
  error.textContent = text;
  error.hidden = false;
  document.getElementById("token").select();
});
