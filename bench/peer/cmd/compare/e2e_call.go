package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
)

// object is a value of JSON.
type object = map[string]any

// caller calls the HTTP API of an agent. Both products have the same one.
type caller struct{ addr string }

// clients keep their connections, as the load programs do: http.DefaultClient would close most of
// them after each request.
var clients = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: parallel}}

// call sends a request with an optional body and decodes the answer, unless into is nil.
func (c caller) call(method, path string, body, into any) error {
	var text bytes.Buffer
	if body != nil {
		if err := json.NewEncoder(&text).Encode(body); err != nil {
			return err
		}
	}
	req, err := http.NewRequest(method, "http://"+c.addr+path, &text)
	if err != nil {
		return err
	}
	resp, err := clients.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	switch {
	case err != nil:
		return err
	case resp.StatusCode != http.StatusOK:
		return fmt.Errorf("%s %s: %s: %s", method, path, resp.Status, answer)
	case into == nil:
		return nil
	}
	return json.Unmarshal(answer, into)
}

// register registers a job.
func (c caller) register(job object) error {
	return c.call(http.MethodPut, "/v1/jobs", object{"Job": job}, nil)
}

// stopJob stops a job.
func (c caller) stopJob(job string) error {
	return c.call(http.MethodDelete, "/v1/job/"+job, nil, nil)
}

// claims counts the claims of all volumes.
func (c caller) claims() (n int, err error) {
	var volumes []struct{ CurrentReaders, CurrentWriters int }
	err = c.call(http.MethodGet, "/v1/volumes?type=csi", nil, &volumes)
	for _, v := range volumes {
		n += v.CurrentReaders + v.CurrentWriters
	}
	return n, err
}

// unclaimed waits until no volume has a claim.
func (c caller) unclaimed() error {
	return await("the end of all claims", func() error {
		n, err := c.claims()
		if err == nil && n > 0 {
			err = fmt.Errorf("%d are left", n)
		}
		return err
	})
}

// events returns the events of the tasks of a job.
func (c caller) events(job string) string {
	var allocs []struct {
		TaskStates map[string]struct {
			Events []struct{ DisplayMessage string }
		}
	}
	err := c.call(http.MethodGet, "/v1/job/"+job+"/allocations", nil, &allocs)
	return fmt.Sprint(allocs, err)
}

// jobOf returns a job with one task.
func jobOf(id, typ string, count int, task object, volumes object) object {
	return object{
		"ID":          id,
		"Name":        id,
		"Type":        typ,
		"Datacenters": []string{"*"},
		"TaskGroups": []object{{
			"Name":          "group",
			"Count":         count,
			"EphemeralDisk": object{"SizeMB": 101}, // the peer wants more than the logs of a task may have
			"Volumes":       volumes,
			"Tasks":         []object{task},
		}},
	}
}
