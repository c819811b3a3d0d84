"""Time, peak memory and error of every workload, for each installed evaluation engine."""

from benchmarks import ours


class _Workload:
    """One workload; asv creates an instance per parameter."""

    section = workload = ""
    params = ("ours, NumPy", "ours, compiled")
    param_names = ("who",)
    timeout = 300

    def setup(self, who):
        found = [w for w in ours.SECTIONS[self.section](False) if (w.workload, w.who) == (self.workload, who)]
        if not found:
            raise NotImplementedError(f"{who} is absent")  # asv skips the parameter
        self.way = found[0]
        self.way.call()

    def time_whole(self, who):
        self.way.call()

    def peakmem_whole(self, who):
        self.way.call()

    def track_error(self, who):
        return self.way.error(self.way.call())


class BalancedModes(_Workload):
    section = workload = "W1"


class NetworksByWeights(_Workload):
    section = workload = "W3"


class DeepModes(_Workload):
    section = workload = "W4, L = 3"


class InfinitelyDeepModes(_Workload):
    section = workload = "W4, L = inf"


class FrozenKernel(_Workload):
    section = workload = "W6"
    params = ("ours, NumPy",)


class OneTarget(_Workload):
    section, workload = "W6", "W6, one target"
    params = ("ours, NumPy",)


class TangentKernelSampling(_Workload):
    section = workload = "W8"
    params = ("ours, NumPy",)
