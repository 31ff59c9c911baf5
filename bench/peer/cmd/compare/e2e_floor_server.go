package main

import (
	"context"
	"fmt"
	"net"
	"os/exec"
	"path/filepath"

	"berth/bench/peer/result"
)

// bareRounds is how often the services are registered at the handler that does nothing: once takes less time
// than the count of CPU time is exact.
const bareRounds = 20

// serverFloorScenario measures parts of the CPU time of an allocation on a server, each alone.
func serverFloorScenario() scenario {
	const head = "lower bound: CPU of an allocation, 200 services of 10: "
	row := func(name string) result.Row {
		return result.Row{
			Name:  head + name,
			Unit:  "us",
			Scale: 1e6,
		}
	}
	bare := row("their requests, answered by net/http without work")
	raft := row("their log entries in Raft and on disk, not applied")
	return scenario{
		rows: []result.Row{bare, raft},
		measure: func(b *bench, _ *product) (numbers, error) {
			n := numbers{}
			cpu, err := b.bareHandler()
			if err != nil {
				return n, err
			}
			n.add(bare.Name, cpu)
			out, err := b.run("berth-server.test", exactly("RaftAlone"), "20x")
			if err != nil {
				return n, err
			}
			cpu, err = metricOf(out, "BenchmarkRaftAlone", "cpu-ns/unit")
			n.add(raft.Name, cpu*1e-9)
			return n, err
		},
		alone: true,
	}
}

// bareHandler returns the CPU time of a handler that only answers, in seconds for each allocation.
func (b *bench) bareHandler() (float64, error) {
	at := addr(berthHTTP)
	cmd := exec.CommandContext(context.Background(), filepath.Join(b.bin, "bare"), "-addr", at)
	cmd.SysProcAttr = withMe()
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	p := &process{cmd: cmd}
	defer func() {
		clients.CloseIdleConnections()
		p.stop()
	}()
	err := await("the handler", func() error {
		conn, err := net.Dial("tcp", at)
		if err == nil {
			err = conn.Close()
		}
		return err
	})
	for i := 0; i < bareRounds && err == nil; i++ {
		err = placeServices(caller{at})
	}
	if err != nil {
		return 0, fmt.Errorf("the handler that only answers: %w", err)
	}
	return p.cpuTime() / (bareRounds * services * perService), nil
}
