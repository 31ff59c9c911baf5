package endpoints

import (
	"time"

	"berth/structs"
)

// settings tune the procedures. Tests change them.
type settings struct {
	holdTimeout   time.Duration // how long a request waits for a leader to be elected
	answerTimeout time.Duration // a leader that was voted out shows within it that it still answers
	volumeTimeout time.Duration // how long a request waits for a volume to be created or deleted
	maxClaims     int           // claims in one claim or unpublish request
	writes        int           // log entries of requests in flight
	writeQueue    int           // requests that wait for one of them to end
	turnQueue     int           // requests that wait while another records the same volume or job
}

// defaultSettings returns values for small and large clusters.
func defaultSettings() settings {
	return settings{
		holdTimeout:   5 * time.Second,
		answerTimeout: 500 * time.Millisecond,
		volumeTimeout: 5 * time.Minute,
		maxClaims:     structs.MaxClaims,
		writes:        512,
		writeQueue:    1024,
		turnQueue:     64,
	}
}
