"""Records what a real control plane says about CEL expressions of device selectors, and measures ours."""
