package nodecalls

import "time"

// CallTimeout is the part of a request that has the timeout of the plugin's call, by the settings of the
// plugin. 0: there is no setting, and the node uses its own timeout.
type CallTimeout struct {
	Timeout time.Duration `json:",omitempty" codec:",omitempty"`
}

// SetTimeout sets the timeout of the plugin's call.
func (c *CallTimeout) SetTimeout(d time.Duration) { c.Timeout = d }

// SentTimeout returns the timeout of a request.
func (c *CallTimeout) SentTimeout() time.Duration { return c.Timeout }

// answerTime is the time for which a server waits for the answer of a node after the call of the plugin must
// have ended: for the way there and back.
const answerTime = 30 * time.Second

// AnswerWithin returns how long a server waits for the answer of a node. None is that without a timeout.
func (c *CallTimeout) AnswerWithin(none time.Duration) time.Duration {
	if c.Timeout <= 0 {
		return none
	}
	return c.Timeout + answerTime
}
