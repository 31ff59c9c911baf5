// Package result has the output of a run of the comparison for the programs that draw and report: files of
// JSON, one for each kind of work.
package result

import (
	"encoding/json"
	"os"
	"slices"
)

// File is one kind of work, measured in one run.
type File struct {
	Kind   string
	Commit string // of berth
	Date   string
	Load   [2]float64 // of the machine, as the kernel averages it over a minute: before and after
	Rounds int
	Rows   []Row
}

// Row is one line: the same work on both sides. Numbers are in the unit they were measured in, and times
// Scale in Unit.
type Row struct {
	Name    string
	Unit    string
	Scale   float64
	Inverse bool `json:",omitempty"` // more is better

	Target float64 `json:",omitempty"` // the ratio that is wanted; 0: none
	Bound  float64 `json:",omitempty"` // the target of berth's own number, a maximum or a minimum; 0: none
	// PeerThen is the peer's number on the machine for which Bound was set, in Unit; 0: none. Bound is a ratio,
	// too, with it: see BoundAsRatio.
	PeerThen float64 `json:",omitempty"`

	Reference bool               `json:",omitempty"` // of growth: to compare others with
	More      map[string]float64 `json:",omitempty"` // other metrics of berth in the last round

	PeerRounds, BerthRounds []float64 // as measured, a number for each round
	Peer, Berth             float64   // their medians; 0: not measured
	Ratio                   float64   // of the medians; 0 without both
	Low, High               float64   // the least and the greatest ratio of one round
}

// Add takes the numbers of one more round; 0 is none.
func (r *Row) Add(peer, berth float64) {
	if peer > 0 {
		r.PeerRounds = append(r.PeerRounds, peer)
	}
	if berth > 0 {
		r.BerthRounds = append(r.BerthRounds, berth)
	}
	r.Peer = Median(r.PeerRounds)
	r.Berth = Median(r.BerthRounds)
	r.Ratio = r.ratio(r.Peer, r.Berth)
	if one := r.ratio(peer, berth); one > 0 {
		if r.Low == 0 || one < r.Low {
			r.Low = one
		}
		r.High = max(r.High, one)
	}
}

func (r *Row) ratio(peer, berth float64) float64 {
	switch {
	case peer == 0 || berth == 0:
		return 0
	case r.Inverse:
		return berth / peer
	}
	return peer / berth
}

// Median is the middle one, of an even number the mean of the two in the middle.
func Median(all []float64) float64 {
	if len(all) == 0 {
		return 0
	}
	s := slices.Sorted(slices.Values(all))
	return (s[(len(s)-1)/2] + s[len(s)/2]) / 2
}

// Met reports whether the row meets its target; wanted is false without a target.
func (r *Row) Met() (met, wanted bool) {
	switch {
	case r.Target > 0:
		return r.Ratio >= r.Target, true
	case r.Bound == 0:
		return false, false
	case r.Berth == 0:
		return false, true
	case r.Inverse:
		return r.Berth*r.Scale >= r.Bound, true
	}
	return r.Berth*r.Scale <= r.Bound, true
}

// BoundAsRatio returns Bound as a ratio to the peer on the machine for which it was set, and whether the row
// has this ratio on the machine of the run. wanted is 0 without PeerThen.
func (r *Row) BoundAsRatio() (wanted float64, met bool) {
	if r.PeerThen == 0 || r.Bound == 0 {
		return 0, false
	}
	wanted = r.PeerThen / r.Bound
	if r.Inverse {
		wanted = 1 / wanted
	}
	return wanted, r.Ratio >= wanted
}

// Write writes a file of JSON.
func (f *File) Write(path string) error {
	text, err := json.MarshalIndent(f, "", "\t")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(text, '\n'), 0o644)
}

// Read reads the output of Write, or any other JSON.
func Read(path string, into any) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, into)
}
