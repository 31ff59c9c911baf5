package main

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"berth/bench/peer/result"
)

// capacityRows are one store with 100,000 nodes, 100,000 volumes and 1,000,000 claims, and then one server
// process, its Raft on disk, that restores it; after that a small one with many connections.
func (b *bench) capacityRows() ([]row, func()) {
	dir, err := os.MkdirTemp("", "bench")
	check(err)
	archive := filepath.Join(dir, "capacity.snap")
	from := func(benchmark, name, metric, unit string, scale float64) row {
		return row{
			Row: result.Row{
				Name:  name,
				Unit:  unit,
				Scale: scale,
			},
			Once: true,
			Berth: inMetric(metric, func(b *bench) (float64, error) {
				out, err := b.run(berthState, exactly(benchmark), "1x", "-archive", archive)
				if err != nil {
					return 0, err
				}
				return metricOf(out, "Benchmark"+benchmark, b.metric)
			}),
		}
	}
	of := func(name, metric, unit string, scale float64) row {
		return from("Capacity", name, metric, unit, scale)
	}
	var restored, connected map[string]float64
	server := func(name, unit string, scale float64, from *map[string]float64,
		measure func(b *bench, dir string) (map[string]float64, error)) row {
		return row{
			Row: result.Row{
				Name:  name,
				Unit:  unit,
				Scale: scale,
			},
			Once: true,
			Berth: func(b *bench) (n float64, err error) {
				if *from == nil { // one run serves every row
					*from, err = measure(b, dir)
					if err != nil {
						return 0, err
					}
				}
				return (*from)[name], nil
			},
		}
	}
	return []row{
		of("store: rows", "rows", "", 1),
		of("store: filled", "filled-s", "s", 1),
		of("store: heap after restoring", "heap-bytes", "MB", 1e-6),
		of("store: snapshot", "bytes", "MB", 1e-6),
		of("store: snapshot written", "written-s", "s", 1),
		of("store: snapshot restored", "restored-s", "s", 1),
		from("FirstRestore", "store: snapshot restored by a new process", "restored-s", "s", 1),
		server(restoreTime, "s", 1, &restored, restoreServer),
		server(restorePeak, "MB", 1e-6, &restored, restoreServer),
		server(startTime, "s", 1, &restored, restoreServer),
		server(startMemory, "MB", 1e-6, &restored, restoreServer),
		server(startPeak, "MB", 1e-6, &restored, restoreServer),
		server(saveTime, "s", 1, &restored, restoreServer),
		server(saveSize, "MB", 1e-6, &restored, restoreServer),
		server(savePeak, "MB", 1e-6, &restored, restoreServer),
		server(perConnection, "KB", 1e-3, &connected, connectMany),
	}, func() { _ = os.RemoveAll(dir) }
}

// The rows of servers.
const (
	restoreTime   = "server: archive sent to it by HTTP, restored, and answering again"
	restorePeak   = "server: peak of its memory until then"
	startTime     = "server: started anew, until it answers as the leader"
	startMemory   = "server: resident memory then"
	startPeak     = "server: peak since it started"
	saveTime      = "server: archive of a new snapshot, by HTTP (most of the time it is compressed)"
	saveSize      = "server: that archive"
	savePeak      = "server: peak of its memory until after that"
	perConnection = "server of 10,000 nodes: memory for a connection of each"
)

// restoreServer has a new server restore the archive of the store's benchmark, and restarts it.
func restoreServer(b *bench, dir string) (all map[string]float64, err error) {
	all = map[string]float64{}
	timed := func(name string, do func() error) {
		if err == nil {
			begun := time.Now()
			err = do()
			all[name] = time.Since(begun).Seconds()
		}
	}
	config := berthConfig(filepath.Join(dir, "large"))
	p := start(dir, filepath.Join(b.bin, "berth"), "large.hcl", config, berthHTTP)
	timed(restoreTime, func() error {
		return errors.Join(put(filepath.Join(dir, "capacity.snap")), answers())
	})
	all[restorePeak] = p.memory("VmHWM:")
	p.stop()
	timed(startTime, func() error {
		p = launch(dir, filepath.Join(b.bin, "berth"), "large.hcl", config)
		return answers()
	})
	defer func() { p.stop() }()
	all[startMemory], all[startPeak] = p.memory("VmRSS:"), p.memory("VmHWM:")
	timed(saveTime, func() error {
		size, err := get("/v1/operator/snapshot")
		all[saveSize] = float64(size)
		return err
	})
	all[savePeak] = p.memory("VmHWM:")
	return all, err
}

func put(archive string) error {
	f, err := os.Open(archive)
	if err != nil {
		return err
	}
	defer f.Close()
	req, err := http.NewRequest(http.MethodPut, "http://"+addr(berthHTTP)+"/v1/operator/snapshot", f)
	if err != nil {
		return err
	}
	_, err = answerOf(http.DefaultClient.Do(req))
	return err
}

func get(path string) (size int64, err error) {
	return answerOf(http.Get("http://" + addr(berthHTTP) + path))
}

func answerOf(resp *http.Response, err error) (size int64, _ error) {
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(resp.Body)
		return 0, fmt.Errorf("answered %s: %s", resp.Status, text)
	}
	return io.Copy(io.Discard, resp.Body)
}

// answers waits until the last volume can be read, which only the leader answers.
func answers() (err error) {
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		_, err = get("/v1/volume/csi/vol-00099999")
		if err == nil {
			return nil
		}
	}
	return err
}

// memory is a field of /proc/PID/status, in bytes.
func (p *process) memory(field string) float64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	check(err)
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); f[0] == field {
			kb, err := strconv.ParseFloat(f[1], 64)
			check(err)
			return kb * 1024
		}
	}
	return 0
}

// connectMany returns the memory of 10,000 connections with occasional heartbeats, beyond the memory of the
// same heartbeats over a few.
func connectMany(b *bench, dir string) (map[string]float64, error) {
	const nodes = 10000
	p := b.startBerth(dir)
	defer p.stop()
	if _, err := p.run(fmt.Sprintf("-op nodes -c 64 -nodes %d", nodes)); err != nil {
		return nil, err
	}
	resident := func(clients int) (float64, error) {
		out, err := p.run(fmt.Sprintf("-op heartbeat -c %d -nodes %d -max %d -time 1m", clients, nodes, 5*nodes))
		if err != nil {
			return 0, err
		}
		m := regexp.MustCompile(`rss=([0-9]+)MB`).FindStringSubmatch(out)
		if m == nil || !strings.Contains(out, "errors=0") {
			return 0, fmt.Errorf("not as expected: %q", out)
		}
		mb, err := strconv.ParseFloat(m[1], 64)
		return mb * (1 << 20), err
	}
	few, err := resident(64)
	if err != nil {
		return nil, err
	}
	many, err := resident(nodes)
	return map[string]float64{perConnection: (many - few) / nodes}, err
}
