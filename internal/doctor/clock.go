package doctor

import "time"

const (
	clockAdvice  = time.Second
	clockProblem = 5 * time.Second
	// clocksApart is what the stores bear between two masters of a Cluster:
	// redisfailures refuses charges beyond it.
	clocksApart = 8 * time.Second
)

const mendClock = "Set the clocks of both machines by NTP (timedatectl set-ntp true, or chrony)."

// clock judges how far a server's clock is from this machine's. The server was
// asked and took rtt to answer, so it read its clock within that time.
func clock(n *notes, name string, off, rtt time.Duration) {
	apart := max(0, off.Abs()-rtt/2)
	way := "ahead of"
	if off < 0 {
		way = "behind"
	}
	switch {
	case apart > clockProblem:
		n.problem(name, mendClock, "has a clock %v %s this machine's: windows, places and alerts tell different times.", apart.Round(time.Millisecond), way)
	case apart > clockAdvice:
		n.advice(name, mendClock, "has a clock %v %s this machine's.", apart.Round(time.Millisecond), way)
	default:
		n.ok(name, "has the same time as this machine.")
	}
}

// offset is how far a clock that said told is ahead of ours, by our clock just
// after the answer.
func offset(told, now time.Time, rtt time.Duration) time.Duration {
	return told.Sub(now.Add(-rtt / 2))
}
