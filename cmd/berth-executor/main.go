// Command berth-executor is the supervisor of a task and the first process of a sandbox, as `berth executor`.
// It starts in a fourth of the time, because it has none of the agent's packages. A build of berth embeds it
// (berth/client/drivers/executor/program).
package main

import (
	"os"

	"berth/client/csi/health/cut"
	"berth/client/csi/health/probe"
	"berth/client/csi/stats/statfs"
	"berth/client/csi/trim/fitrim"
	"berth/client/drivers/executor"
	"berth/client/guard/watch"
)

func main() {
	os.Exit(executor.Main(os.Args[1:],
		executor.Other{Arg: cut.Arg, Main: cut.Main},
		executor.Other{Arg: probe.Arg, Main: probe.Main},
		executor.Other{Arg: statfs.Arg, Main: statfs.Main},
		executor.Other{Arg: fitrim.Arg, Main: fitrim.Main},
		executor.Other{Arg: watch.Arg, Main: watch.Main}))
}
