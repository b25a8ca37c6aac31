// Light, dark, or as the browser does.

/** @param {() => void} redraw what is drawn in colours of the theme, after each change */
function listenToTheme(redraw = () => {}) {
  const key = 'boxcar-report-theme';
  /** @param {string} theme */
  const apply = (theme) => {
    if (theme === 'auto') delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme;
    redraw();
  };
  for (const input of /** @type {NodeListOf<HTMLInputElement>} */ (document.querySelectorAll('input[name=theme]'))) {
    input.addEventListener('change', () => {
      apply(input.value);
      try {
        localStorage.setItem(key, input.value);
      } catch {  // a browser may forbid it to files
      }
    });
    try {
      if (localStorage.getItem(key) === input.value) {
        input.checked = true;
        apply(input.value);
      }
    } catch {  // likewise
    }
  }
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', redraw);
}
