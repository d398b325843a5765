"""A monthly budget."""

from aws_cdk import aws_budgets as budgets
from aws_cdk import aws_sns as sns
from constructs import Construct

_NOTICES = (("ACTUAL", 80), ("ACTUAL", 100), ("FORECASTED", 100))
"""Spent or expected, in percent of the budget."""


class Budget(Construct):
    """Of the whole account: a tag only filters costs once somebody has activated it for billing.

    It tells and stops nothing: what stops is a pool's most and a reservation's end.
    """

    def __init__(
        self, scope: Construct, id: str, *, deployment: str, usd_per_month: float, topic: sns.ITopic
    ) -> None:
        super().__init__(scope, id)
        budgets.CfnBudget(
            self,
            "Budget",
            budget=budgets.CfnBudget.BudgetDataProperty(
                budget_name=f"{deployment}-account",
                budget_type="COST",
                time_unit="MONTHLY",
                budget_limit=budgets.CfnBudget.SpendProperty(amount=usd_per_month, unit="USD"),
            ),
            notifications_with_subscribers=[
                budgets.CfnBudget.NotificationWithSubscribersProperty(
                    notification=budgets.CfnBudget.NotificationProperty(
                        notification_type=kind,
                        comparison_operator="GREATER_THAN",
                        threshold=percent,
                        threshold_type="PERCENTAGE",
                    ),
                    subscribers=[
                        budgets.CfnBudget.SubscriberProperty(
                            subscription_type="SNS", address=topic.topic_arn
                        )
                    ],
                )
                for kind, percent in _NOTICES
            ],
        )
