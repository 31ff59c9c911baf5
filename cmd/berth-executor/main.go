// Command berth-executor is the supervisor of a task and the first process of a sandbox, as `berth executor`.
// It starts in a fourth of the time, because it has none of the agent's packages. A build of berth embeds it
// (berth/client/drivers/manager).
package main

import (
	"os"

	"berth/client/csi/helper"
	"berth/client/drivers/executor"
	"berth/client/guard/watch"
)

func main() {
	os.Exit(executor.Main(os.Args[1:],
		executor.Other{Arg: helper.CutArg, Main: helper.Cut},
		executor.Other{Arg: helper.ProbeArg, Main: helper.Probe},
		executor.Other{Arg: helper.StatfsArg, Main: helper.Statfs},
		executor.Other{Arg: helper.FitrimArg, Main: helper.Fitrim},
		executor.Other{Arg: watch.Arg, Main: watch.Main}))
}
