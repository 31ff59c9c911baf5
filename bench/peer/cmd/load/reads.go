package main

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"sync/atomic"

	"berth/bench/peer/shape"
	"github.com/hashicorp/nomad/nomad/structs"
)

// getPlugin reads the plugin.
func getPlugin() {
	run("plugget", func(c *client, n int64) error {
		return c.r.Call("CSIPlugin.Get", &structs.CSIPluginGetRequest{ID: shape.PluginID, QueryOptions: qo},
			&idxReply{})
	})
}

// listPlugins lists the plugins.
func listPlugins() {
	run("pluglist", func(c *client, n int64) error {
		return c.r.Call("CSIPlugin.List", &structs.CSIPluginListRequest{QueryOptions: qo}, &idxReply{})
	})
}

// listVolumes lists all volumes.
func listVolumes() {
	run("vollist", func(c *client, n int64) error {
		return c.r.Call("CSIVolume.List", &structs.CSIVolumeListRequest{QueryOptions: qo}, &idxReply{})
	})
}

// listVolumePage lists one page of 100 volumes.
func listVolumePage() {
	q := qo
	q.PerPage = 100
	run("vollist100", func(c *client, n int64) error {
		return c.r.Call("CSIVolume.List", &structs.CSIVolumeListRequest{QueryOptions: q}, &idxReply{})
	})
}

// getVolume reads the volume of -vol, or random volumes.
func getVolume() {
	run("volget", func(c *client, _ int64) error {
		id := *vol
		if id == "rand" {
			id = shape.VolID(rand.IntN(*vols))
		}
		return c.r.Call("CSIVolume.Get", &structs.CSIVolumeGetRequest{ID: id, QueryOptions: qo}, &idxReply{})
	})
}

// ping calls Status.Ping.
func ping() {
	run("ping", func(c *client, n int64) error {
		return c.r.Call("Status.Ping", struct{}{}, &struct{}{})
	})
}

// getHTTP reads the path in -vol over HTTP.
func getHTTP() {
	hc := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: *conc, DisableCompression: true}}
	var size atomic.Int64
	run("http"+*vol, func(c *client, n int64) error {
		resp, err := hc.Get("http://" + *httpAddr + *vol)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		sz, err := io.Copy(io.Discard, bufio.NewReaderSize(resp.Body, 1<<16))
		if resp.StatusCode != 200 {
			return fmt.Errorf("status %d", resp.StatusCode)
		}
		size.Store(sz)
		return err
	})
	fmt.Printf("  body %d bytes\n", size.Load())
}
