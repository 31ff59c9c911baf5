package cluster

import (
	"context"
	"time"

	"berth/fsm"
	"berth/server/control/loop"
	"berth/state"
	"berth/structs/access"
)

const (
	// longestTokenPause bounds the wait for the next end: the wall clock may be stepped meanwhile.
	longestTokenPause = time.Minute
	// tokenAfterFault is the pause after an entry that could not be written.
	tokenAfterFault = time.Second
	// keptTokenChanges is the number of changed rows that are kept between two looks.
	keptTokenChanges = 256
)

// TokenExpirer deletes the tokens. A token gives nothing from its end on by the wall clock of a server, and
// its row goes when the end has passed by the cluster time as well: a wall clock may be wrong for a minute.
//
// It deletes the tokens of access control that have ended, on the leader, and what else of
// logins has an end: one-time tokens and marks. A token gives nothing from its end on, also while its row is
// there. With the row go the reads that wait with the token.
type TokenExpirer struct {
	loop.Common
	Now func() time.Time // the wall clock
}

// due returns the time up to which ends have passed by both clocks.
func (e TokenExpirer) due() time.Time {
	wall, cluster := e.Now(), e.Clock.Now()
	if cluster.Before(wall) {
		return cluster
	}
	return wall
}

// Run deletes tokens at their ends, until ctx ends.
func (e TokenExpirer) Run(ctx context.Context) {
	feed := e.Store.Subscribe(keptTokenChanges, state.TokenEndRows...) // before the first read
	defer feed.Close()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-feed.Ready():
			feed.TakeChanges()
		}
		timer.Reset(e.expire(ctx))
	}
}

// expire deletes the tokens that have ended and returns how long to wait.
func (e TokenExpirer) expire(ctx context.Context) time.Duration {
	now := e.due()
	first := state.FirstTokenEnd(e.Store.Read())
	if first == 0 || first > now.UnixNano() {
		return tokenPause(first, now)
	}

	_, err := fsm.Propose(ctx, e.Proposer, fsm.ACLTokensExpire,
		&access.TokensExpireRequest{Now: now.UnixNano()})
	if err != nil {
		e.Logger.Warn("delete ended tokens", "error", err)
		return tokenAfterFault
	}
	return tokenPause(state.FirstTokenEnd(e.Store.Read()), now)
}

func tokenPause(first int64, now time.Time) time.Duration {
	if first == 0 {
		return longestTokenPause
	}
	return min(max(time.Duration(first-now.UnixNano()), 0), longestTokenPause)
}
