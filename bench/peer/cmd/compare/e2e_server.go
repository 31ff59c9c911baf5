package main

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"berth/bench/peer/result"
)

const (
	services   = 200
	perService = 10
)

// serverScenario is a server with nodes that only register. Its services are registered over HTTP.
func serverScenario(nodes int) scenario {
	name := fmt.Sprintf("%d services of %d over HTTP, %d nodes: ", services, perService, nodes)
	all := inMilliseconds(name+"all placed", 8)
	cpu := result.Row{
		Name:     name + "server CPU an allocation",
		Unit:     "us",
		Scale:    1e6,
		Bound:    80,
		PeerThen: 685,
	}
	return scenario{
		rows: []result.Row{all, cpu},
		measure: func(b *bench, p *product) (numbers, error) {
			dir, err := os.MkdirTemp(b.scratch, "server-")
			if err != nil {
				return nil, err
			}
			server := b.startServer(p, dir)
			n := numbers{}
			_, err = server.run(server.fleet(nodes))
			begun := time.Now()
			used := server.cpuTime()
			if err == nil {
				err = placeServices(caller{addr(p.http)})
			}
			if err == nil {
				n.add(all.Name, time.Since(begun).Seconds())
				n.add(cpu.Name, (server.cpuTime()-used)/(services*perService))
			}
			server.stop()
			return n, err
		},
	}
}

func (b *bench) startServer(p *product, dir string) *process {
	if p == &peerProduct {
		return b.startPeer(dir)
	}
	return b.startBerth(dir)
}

// fleet returns the flags of the load that registers nodes.
func (p *process) fleet(nodes int) string {
	return strings.ReplaceAll(p.ops["nodes"].flags, strconv.Itoa(fleet), strconv.Itoa(nodes))
}

// placeServices registers services and waits until each has all its allocations.
func placeServices(c caller) error {
	name := func(i int) string { return fmt.Sprintf("service-%d", i) }
	err := together(services, func(i int) error {
		task := object{
			"Name":      "server",
			"Driver":    "exec",
			"Config":    object{"command": "/bin/true"},
			"Resources": object{"CPU": 100 + 50*(i%8), "MemoryMB": 128 + 64*(i%6)},
		}
		return c.register(jobOf(name(i), "service", perService, task, nil))
	})
	for i := 0; i < services && err == nil; i++ {
		err = await("the allocations of "+name(i), func() error {
			var summary struct {
				Summary map[string]struct{ Starting int }
			}
			err := c.call(http.MethodGet, "/v1/job/"+name(i)+"/summary", nil, &summary)
			if n := summary.Summary["group"].Starting; err == nil && n != perService {
				err = fmt.Errorf("%d are placed", n)
			}
			return err
		})
	}
	return err
}

// cpuTime is the CPU time of the process in seconds: the sum of what its threads have run, which the kernel
// counts in nanoseconds. The threads of a Go program do not end.
func (p *process) cpuTime() (sum float64) {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", p.cmd.Process.Pid))
	check(err)
	for _, path := range threads {
		text, err := os.ReadFile(path)
		check(err)
		ran, _, _ := strings.Cut(string(text), " ")
		ns, err := strconv.ParseFloat(ran, 64)
		check(err)
		sum += ns / 1e9
	}
	return sum
}
