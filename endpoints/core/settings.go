package core

import (
	"time"

	"berth/structs"
)

// WritePatience is how long a request waits until it may write.
const WritePatience = time.Second

// HoldPoll is how often a request that waits for an election looks for its result.
const HoldPoll = 50 * time.Millisecond

// Settings tune the procedures. Tests change them.
type Settings struct {
	HoldTimeout   time.Duration // how long a request waits for a leader to be elected
	AnswerTimeout time.Duration // a leader that was voted out shows within it that it still answers
	VolumeTimeout time.Duration // how long a request waits for a volume to be created or deleted
	MaxClaims     int           // claims in one claim or unpublish request
	Writes        int           // log entries of requests in flight
	WriteQueue    int           // requests that wait for one of them to end
	TurnQueue     int           // requests that wait while another records the same volume or job
}

// DefaultSettings returns values for small and large clusters.
func DefaultSettings() Settings {
	return Settings{
		HoldTimeout:   5 * time.Second,
		AnswerTimeout: 500 * time.Millisecond,
		VolumeTimeout: 5 * time.Minute,
		MaxClaims:     structs.MaxClaims,
		Writes:        512,
		WriteQueue:    1024,
		TurnQueue:     64,
	}
}
