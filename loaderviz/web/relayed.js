// Gives a widget's script its model, with the values of the core models that stand in for its traits
// (widgets/relayed.py).
const relayed = (widget) => ({
  async render({ model, el }) {
    const relays = {};
    await Promise.all(Object.entries(model.get("_relays")).map(async ([name, reference]) => {
      relays[name] = await model.widget_manager.get_model(reference.slice("IPY_MODEL_".length));
    }));
    const relayOf = (event) => relays[event.slice("change:".length)];
    return widget.render({
      el,
      model: {
        get: (name) => relays[name].get("value"),
        on: (event, callback) => relayOf(event).on("change:value", callback),
        off: (event, callback) => relayOf(event).off("change:value", callback),
      },
    });
  },
});
