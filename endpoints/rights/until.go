package rights

import (
	"time"

	"berth/structs"
)

// MaxSilence is how long a server decides on stale requests by its own tokens and policies while it hears
// from no leader. It is the time of streams: see api.
const MaxSilence = 30 * time.Second

// longestLook bounds the time between two looks at the clock: it may be stepped meanwhile.
const longestLook = time.Minute

// Until is how a right ends by time alone. All other ends change rows. The zero value never ends.
type Until struct {
	end   time.Time // of the token; the zero time: it has none
	stale bool      // the server decides by rows that may be old
}

// Confirm returns an error if a right that the gate has found must not be used any more: the token has ended,
// or the request is stale and the server hears from no leader for the time of silence. The error is denied or
// not served. Otherwise it returns how long the right lasts at least, 0 if no time ends it. Root needs no
// token at the operator socket, so silence does not end its right.
func (g *Gate) Confirm(u Until, silence time.Duration) (least time.Duration, err error) {
	if !g.Enforces() {
		return 0, nil
	}

	if !u.end.IsZero() {
		least = min(u.end.Sub(g.config.Now()), longestLook)
		if least <= 0 {
			return 0, structs.Deniedf("the token of this request has ended while it waited")
		}
	}
	if !u.stale {
		return least, nil
	}

	left := MaxSilence - silence
	if left <= 0 {
		return 0, structs.NotServedf("this server has heard from no leader for %s, so it does not know whether "+
			"the rights of this request have ended: ask another server, or use the operator socket of this one",
			silence.Round(time.Second))
	}
	if least == 0 {
		return left, nil
	}
	return min(least, left), nil
}

func isStale(req any) bool {
	r, reads := req.(interface{ Query() *structs.QueryOptions })
	return reads && r.Query().AllowStale
}
