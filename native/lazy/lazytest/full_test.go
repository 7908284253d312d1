//go:build full

package lazytest

import (
	"testing"

	"github.com/caserun/caserun/schedulers"
)

// What takes longer than the gate may: tests of other files with each call instead of each function, with the other
// runtime of CUDA and in the other modes, and with more seeds.

func TestLazyKeepsResultsInTheOtherModes(t *testing.T) {
	for which := 1; which < 4; which++ {
		keepsResults(t, which)
	}
}

func TestLinkedDoesAsPreloadedWithTheOtherRuntime(t *testing.T) { linkedDoesAsPreloaded(t, 1) }

func TestLazySurvivesFailureOfEveryCall(t *testing.T) { survivesFailures(t, allCalls) }

func TestLazyReportsLastingErrorsOfEveryCall(t *testing.T) { reportsLastingErrors(t, allCalls) }

func TestLazyKilledInEveryCall(t *testing.T) { isKilled(t, allCalls) }

func TestLazyIsKilledInEveryCallOfARevocation(t *testing.T) {
	isKilledInTheMiddleOfARevocation(t, allSteps)
}

func TestLazyMemoryStaysWhicheverCallTheDriverRefuses(t *testing.T) {
	memoryStaysWhereTheDriverRefuses(t, allSteps)
}

func TestLazyTasksEndOrBeginInEachGap(t *testing.T) {
	t.Run("often", func(t *testing.T) { tasksEndInEachGap(t, "CASE_MOVABLE=0", "1", "2", "3") })
	t.Run("movable", func(t *testing.T) { tasksEndInEachGap(t, movable, "ends", "moves", "binds") })
}

func TestLazyComputesWithMemoryAnywhereForLong(t *testing.T) { computesWithMemoryAnywhere(t, 0, 8, 50) }

// Each program.
func TestLazyKeepsResultsWhenAllMemoryIsTaken(t *testing.T) {
	keepsResultsWhenMemoryIsTaken(t, drawnFrom(1), 0)
}

func TestLazyKeepsResultsOfMoreRandomPrograms(t *testing.T) {
	keepsResultsOfRandomPrograms(t, drawnFrom(1), 20, 16)
}

func TestLinkedKeepsResultsOfMoreRandomPrograms(t *testing.T) {
	linkedKeepsResultsOfRandomPrograms(t, drawnFrom(7001), 16)
}

func TestLazyKeepsResultsOfMoreRandomProgramsThatCanMove(t *testing.T) {
	keepsResultsOfRandomProgramsThatCanMove(t, drawnFrom(30001), 16)
}

func TestLazyKeepsResultsOfMoreRandomProgramsWhereStreamsExecute(t *testing.T) {
	keepsResultsOfRandomProgramsWhereStreamsExecute(t, drawnFrom(9001), 16)
}

func TestLazyStopsKernelsAThousandTimes(t *testing.T) { stopsKernels(t, 1000) }

func TestLazyMakesAMillionHandles(t *testing.T) {
	runLazy(t, "13", "many_handles 1000000", movable).wantNative().wantNothingLeft()
}

// About 4,000 moves.
func TestLazyMovesThousandsOfTimes(t *testing.T) { keepsResultsWhenItMoves(t, 9001, 600) }

func TestLazyIsKilledInEveryCallOfAMove(t *testing.T) { isKilledInTheMiddleOfAMove(t, allSteps) }

func TestLazyStaysWhicheverCallAMoveIsRefused(t *testing.T) {
	movesAfterRefusals(t, allSteps, startVariables)
}

// Between devices that do not reach each other's memory, contents go through the host.
func TestLazyStaysWhicheverCallAMoveThroughTheHostIsRefused(t *testing.T) {
	movesAfterRefusals(t, allSteps, func(t *testing.T, env ...string) *revocable {
		t.Helper()
		return startVariables(t, append(env, "FAKE_CUDA_PEERS=0")...)
	})
}

// What is on the host stays there, and the other device is let reach it.
func TestLazyStaysWhicheverCallAMoveBesideMemoryOnTheHostIsRefused(t *testing.T) {
	movesAfterRefusals(t, allSteps, func(t *testing.T, env ...string) *revocable {
		t.Helper()
		p := startVariables(t, env...)
		was := p.revoked(schedulers.Evict)
		refused := was.Outcome == schedulers.Unable && mayFail.MatchString(was.Why) // a thread that looks has made a call less
		if !refused && (was.Outcome != schedulers.Done || was.Moved.Bytes == 0) {
			t.Fatalf("revoked %+v", was)
		}
		return p
	})
}
