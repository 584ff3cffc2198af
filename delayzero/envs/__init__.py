"""Environments by id: classic control, MinAtar, Atari, all without delay."""

import gymnasium as gym

gym.register("delayzero/Identity-v0", "delayzero.envs.toys:Identity")
gym.register("delayzero/TwoStepBandit-v0", "delayzero.envs.toys:TwoStepBandit")
gym.register("delayzero/Wheel-v0", "delayzero.envs.toys:Wheel")
gym.register("delayzero/Chase-v0", "delayzero.envs.toys:Chase")
