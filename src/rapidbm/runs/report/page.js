// Enlarges figures, opens what a link points to, reads values off charts. Without it everything is there.
document.documentElement.classList.add("scripted");
const box = document.getElementById("enlarged"), pictures = [...document.querySelectorAll("button.picture")];
let shown = 0;
function enlarge(number) {
  shown = (number + pictures.length) % pictures.length;
  const from = pictures[shown].querySelector("img"), to = box.querySelector("img");
  to.src = from.src; to.alt = from.alt; to.className = "";
  box.querySelector("h2").textContent = from.alt;
  if (!box.open) box.showModal();
}
pictures.forEach((button, number) => button.addEventListener("click", () => enlarge(number)));
box.querySelector("img").addEventListener("click", event => event.target.classList.toggle("whole"));
box.querySelectorAll("[data-step]").forEach(button =>
  button.addEventListener("click", () => enlarge(shown + Number(button.dataset.step))));
box.querySelector("[data-close]").addEventListener("click", () => box.close());
box.addEventListener("click", event => { if (event.target === box) box.close(); });
box.addEventListener("keydown", event => {
  const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  if (step) enlarge(shown + step);
});

function unfold() {
  const to = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (to) { for (let at = to; at; at = at.parentElement) if (at.tagName === "DETAILS") at.open = true; to.scrollIntoView(); }
}
addEventListener("hashchange", unfold);
if (location.hash) unfold();
const folded = () => [...document.querySelectorAll("details")];
document.querySelectorAll("[data-unfold]").forEach(button => button.addEventListener("click", () => {
  const some = [...document.querySelectorAll(button.dataset.unfold)], open = some.some(each => !each.open);
  some.forEach(each => { each.open = open; });
  button.setAttribute("aria-expanded", open);
}));
let before = [];
addEventListener("beforeprint", () => { before = folded().filter(each => !each.open); before.forEach(each => { each.open = true; }); });
addEventListener("afterprint", () => before.forEach(each => { each.open = false; }));

for (const chart of document.querySelectorAll("svg.chart[data-looks]")) {
  const looks = JSON.parse(chart.dataset.looks), out = chart.parentElement.querySelector(".readout");
  const line = chart.querySelector(".cursor"), spots = [...chart.querySelectorAll(".at")];
  let now = looks.length - 1;
  const show = number => {
    now = Math.max(0, Math.min(looks.length - 1, number));
    const look = looks[now];
    line.setAttribute("x1", look.x); line.setAttribute("x2", look.x); line.style.visibility = "visible";
    spots.forEach((spot, i) => {
      spot.style.visibility = look.y[i] === null ? "hidden" : "visible";
      spot.setAttribute("cx", look.x); spot.setAttribute("cy", look.y[i] ?? 0);
    });
    out.textContent = look.text;
  };
  chart.addEventListener("pointermove", event => {
    const at = new DOMPoint(event.clientX, event.clientY).matrixTransform(chart.getScreenCTM().inverse()).x;
    show(looks.reduce((best, look, i) => Math.abs(look.x - at) < Math.abs(looks[best].x - at) ? i : best, 0));
  });
  chart.addEventListener("keydown", event => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (step) { event.preventDefault(); show(now + step); }
  });
}
