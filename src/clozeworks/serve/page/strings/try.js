export const en = {
  title: "Try",
  about: "Ask a model something, and see its answer next to what you asked.",
  models: "Models",
  model: "Model",
  abilities: "What it answers",
};

export const zh = {
  title: "试用",
  about: "向模型提问，答案就显示在问题旁边。",
  models: "模型",
  model: "模型",
  abilities: "可回答的任务",
};
