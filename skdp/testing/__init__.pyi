from skdp.testing.audit import epsilon_lower_bound as epsilon_lower_bound
from skdp.testing.ball import check_ball as check_ball
from skdp.testing.law import check_law as check_law
from skdp.testing.loss import check_loss as check_loss
from skdp.testing.mechanism import check_mechanism as check_mechanism
from skdp.testing.recording import replay as replay
