package control

import (
	"sync"
	"testing"
	"time"

	"berth/structs"
)

// agentKiller ends the agent of the node during one of its calls, before or after the plugin has carried the
// call out. The answer is lost. The agent is back after a time in which no call reaches it.
type agentKiller struct {
	plugin interface{ answer(nodeCall) (any, error) }
	mu     sync.Mutex
	count  int
	at     int  // the call
	late   bool // after the plugin
	away   time.Time
}

func (k *agentKiller) answer(c nodeCall) (any, error) {
	k.mu.Lock()
	if time.Now().Before(k.away) {
		k.mu.Unlock()
		return nil, structs.Unavailablef("node n1 is not reachable")
	}
	k.count++
	dies := k.count == k.at
	if dies {
		k.away = time.Now().Add(30 * time.Second)
	}
	k.mu.Unlock()

	if !dies {
		return k.plugin.answer(c)
	}
	if k.late {
		_, _ = k.plugin.answer(c) // the answer is lost
	}
	return nil, structs.Internalf("the connection has broken")
}

// killAtEachCall runs a life of a snapshot, or of a group, for each call of the agent and each moment.
func killAtEachCall(t *testing.T, life func(w *testEnv, k *agentKiller)) {
	for _, late := range []bool{false, true} {
		at := 1
		for died := true; died; at++ {
			virtual(t, func(t *testing.T, w *testEnv) {
				k := &agentKiller{at: at, late: late}
				life(w, k)
				died = k.count >= at
			})
		}
		if at < 3 {
			t.Errorf("the agent got %d calls", at-2)
		}
	}
}

func TestSnapshot_NoneLeaksWithAnAgentThatIsKilledAtAnyCall(t *testing.T) {
	for name, life := range killedLives {
		t.Run(name, func(t *testing.T) {
			killAtEachCall(t, func(w *testEnv, agent *agentKiller) {
				plugin := w.withSnapshots()
				agent.plugin = plugin
				w.setAnswer(agent.answer)
				w.takeSnapshot()
				life.begin(w, plugin)
				k := &killer{testEnv: w, plugin: plugin, late: agent.late}
				k.lead(w.Deps)
				k.checkEnd(plugin, life.ends)
			})
		})
	}
}

func TestGroup_NoneLeaksWithAnAgentThatIsKilledAtAnyCall(t *testing.T) {
	for name, life := range killedGroups {
		t.Run(name, func(t *testing.T) {
			killAtEachCall(t, func(w *testEnv, agent *agentKiller) {
				plugin := w.withGroups()
				agent.plugin = plugin
				w.setAnswer(agent.answer)
				w.takeGroup()
				life.begin(w, plugin)
				k := &killer{testEnv: w, plugin: plugin, late: agent.late}
				k.lead(w.Deps)
				k.checkGroup(plugin, life.ends)
			})
		})
	}
}
