document.querySelectorAll(".latents > li").forEach(latent => {
  const strip = latent.querySelector(".strip"), frame = latent.querySelector(".window"), shown = new Image();
  const input = latent.querySelector("input"), output = latent.querySelector("output");
  const frames = Number(input.max) + 1, step = Number(input.dataset.step), reach = Number(input.dataset.reach);
  const move = () => {
    const place = (input.value * step - reach).toFixed(1);
    shown.style.transform = `translateX(${-100 * input.value / frames}%)`;
    output.textContent = place;
    input.setAttribute("aria-valuetext", `${place} standard deviations`);
  };
  shown.src = strip.src;
  shown.alt = "";
  shown.style.width = `${100 * frames}%`;
  frame.append(shown);
  input.addEventListener("input", move);
  move();
  latent.querySelectorAll("[hidden]").forEach(part => { part.hidden = false; });
  latent.classList.remove("still");
});
