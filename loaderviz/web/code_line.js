// A line of code and a button that copies it.
export default {
  render({ model, el }) {
    el.classList.add("loaderviz-code");
    const code = document.createElement("code");
    const button = document.createElement("button");
    button.type = "button";
    button.className = "jupyter-button widget-button";
    const label = "Copy code";
    button.textContent = label;
    const copy = async () => {
      const text = model.get("text");
      try {
        await navigator.clipboard.writeText(text);
      } catch {
        // Pages that are not served securely have no clipboard: select the text and copy that.
        getSelection().selectAllChildren(code);
        if (!document.execCommand("copy")) return;
      }
      button.textContent = "Copied";
      setTimeout(() => { button.textContent = label; }, 1500);
    };
    const show = () => { code.textContent = model.get("text"); };
    button.addEventListener("click", copy);
    model.on("change:text", show);
    show();
    el.append(button, code);
    return () => model.off("change:text", show);
  },
};
