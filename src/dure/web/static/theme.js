// Runs before the first paint so that the chosen theme does not flash. The choice is kept in this browser only.
(() => {
  const chosen = localStorage.getItem("dure-theme");
  if (chosen === "dark" || chosen === "light") document.documentElement.dataset.theme = chosen;
})();
